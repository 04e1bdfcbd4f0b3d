/** The version of this program, as `package.json` has it. A bundle has no `package.json` beside it. */
export const version = "0.1.0";

/** The wrangler that a new project gets: the one of the tests. */
export const wranglerVersion = "4.155.0";
