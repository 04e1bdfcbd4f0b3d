import { spawnSync } from "node:child_process";

/** Whether this machine has OpenSSL's program: a machine with Node and npm need not. */
export const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;
