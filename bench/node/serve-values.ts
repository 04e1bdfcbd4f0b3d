import { randomBytes } from "node:crypto";
import { join } from "node:path";

/** The configuration of a `rampart serve` under test: free ports, and a store in this folder. */
export function serveValues(folder: string): Readonly<Record<string, string | number>> {
  return {
    STORE_DIRECTORY: join(folder, "store"),
    LISTEN: "127.0.0.1:0",
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    // One caller makes all the calls.
    CALLER_QUOTA: 10_000_000,
    ISSUER_QUOTA: 10_000_000,
    KEK: `bench:${randomBytes(32).toString("base64")}`,
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
  };
}
