import { systemCode } from "../../program/files/system-code.ts";
import { exitCodes } from "./exit-codes.ts";

/**
 * Ends the process when its output cannot be written. `console` ignores such an error, so that a KEK on a
 * full disk would be half a KEK, and the verb a success. A reader that has seen enough (EPIPE) ends it too.
 */
export function endingWithOutput(stream: NodeJS.WriteStream): void {
  stream.on("error", (error) => {
    if (systemCode(error) === "EPIPE") process.exit();
    console.error(`rampart: the standard output cannot be written: ${error.message}`);
    process.exit(exitCodes.failed);
  });
}
