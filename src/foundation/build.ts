/** The version of this program, as `package.json` has it. A bundle has no `package.json` beside it. */
export const version = "0.2.0";

/** The commit that a package, an executable or an image was built from, with `+` if the tree had changes. */
export const commit = "checkout";

/** What tells two builds apart, such as `0.2.0 (14cbb23c07d1)`. */
export const build = `${version} (${commit})`;
