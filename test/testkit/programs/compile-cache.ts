import { join } from "node:path";

/** Variables for the workers of tests and the programs that they start, which share what Node has compiled. */
export const compileCache: Readonly<Record<string, string>> = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, "../../../node_modules/.cache/compiled"),
};
