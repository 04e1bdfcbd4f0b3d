import { join } from "node:path";

/** Variables for the programs that tests start, so that they share the code that Node has compiled. */
export const compileCache: Readonly<Record<string, string>> = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, "../../../node_modules/.cache/compiled"),
};
