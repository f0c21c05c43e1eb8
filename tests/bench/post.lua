-- SPDX-License-Identifier: MIT
-- wrk: one POST of BODY_BYTES bytes, again and again.
wrk.method = "POST"
wrk.body = string.rep("x", tonumber(os.getenv("BODY_BYTES") or "1024"))
wrk.headers["Content-Type"] = "application/json"
