import { systemCode } from "../../program/files/small-file.ts";
import { exitCodes } from "./exit-codes.ts";

/**
 * Ends the process when its answer cannot be written: otherwise a KEK on a full disk would be half a KEK, and the
 * verb a success. A reader that has seen enough (EPIPE) ends it too. Without the standard error stream it goes on.
 */
export function endingWithOutput({ stdout, stderr }: NodeJS.Process): void {
  stdout.on("error", (error) => {
    if (systemCode(error) === "EPIPE") process.exit();
    stderr.write(`rampart: the standard output cannot be written: ${error.message}\n`);
    process.exit(exitCodes.failed);
  });
  stderr.on("error", () => {});
}
