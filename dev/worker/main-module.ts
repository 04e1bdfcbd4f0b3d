import { fileURLToPath } from "node:url";

/** The main module of a Worker with the issuance log. The package has its own in the place of this module. */
export const mainModule: string = fileURLToPath(
  new URL("../../src/worker/main-with-log.ts", import.meta.url),
);
