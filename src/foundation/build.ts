/** The version of this program, as `package.json` has it. A bundle has no `package.json` beside it. */
export const version = "0.3.0";

/** The commit that a package, an executable or an image was built from, with `+` if the tree had changes. */
export const commit = "checkout";

/** The version and commit of this build, such as `0.3.0 (14cbb23c07d1)`. */
export const build = `${version} (${commit})`;
