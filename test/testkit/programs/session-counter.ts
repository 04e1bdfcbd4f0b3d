/**
 * Imported into a program by `--import`: at SIGUSR2 it writes how many sessions of HTTP/2 servers the process holds
 * to the file that HELD_SESSIONS names.
 *
 * @module
 */

import { writeFileSync } from "node:fs";
import { performServerHandshake } from "node:http2";
import { Duplex } from "node:stream";
import { queryObjects } from "node:v8";

/** Node does not export the class, but everything that it makes of it has it. */
const anySession = performServerHandshake(new Duplex({ read() {}, write() {} }));

const { HELD_SESSIONS = "" } = process.env;

process.on("SIGUSR2", () => {
  // It collects all garbage first.
  const count = queryObjects(anySession.constructor, { format: "count" }) - 1;
  writeFileSync(HELD_SESSIONS, String(count));
});
