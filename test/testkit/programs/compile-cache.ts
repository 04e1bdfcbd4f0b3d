import { join } from "node:path";

/** For the environment of a program that a test starts: what Node has compiled, later ones need not compile again. */
export const compileCache: Readonly<Record<string, string>> = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, "../../../node_modules/.cache/compiled"),
};
