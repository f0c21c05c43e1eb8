// SPDX-License-Identifier: MIT
/* crc32c: the Castagnoli checksum, by the processor's instruction where there is one. Any thread.
 */
#ifndef MCPD_CRC32C_H
#define MCPD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, the checksum of what came before; 0 for the start. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);
/* The same by table alone: what machines without the instruction use. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t len);

#endif
