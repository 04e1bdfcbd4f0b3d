/** The wrangler that a new project gets: the one of the tests. */
export const wranglerVersion = "4.155.0";
