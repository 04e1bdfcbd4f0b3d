import type { Fetching } from "../../../src/foundation/fetch.ts";

/** For a CA that has nobody to ask. */
export const noFetching: Fetching = {
  fetchTrusting: () => async () => {
    throw new TypeError("no test asks anybody");
  },
};
