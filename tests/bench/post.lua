-- SPDX-License-Identifier: MIT
-- wrk: one POST, again and again: of the file BODY_FILE, else of BODY_BYTES bytes.
local function content(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read("*a")
    file:close()
    return text
end

local path = os.getenv("BODY_FILE")
wrk.method = "POST"
wrk.body = path and content(path) or string.rep("x", tonumber(os.getenv("BODY_BYTES") or "1024"))
wrk.headers["Content-Type"] = os.getenv("BODY_TYPE") or "application/json"
