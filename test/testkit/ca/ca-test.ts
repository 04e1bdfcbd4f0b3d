import { test } from "vitest";
import { startSigningCa } from "./tainted-ca.ts";

/**
 * A test that gets a CA whose first authority signs, without a root of another CA in the bundle, so that roots can be
 * counted.
 */
export const caTest = test.extend("ca", () => startSigningCa({}, { hasNoNamesake: true }));
