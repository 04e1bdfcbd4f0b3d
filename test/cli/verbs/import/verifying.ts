import { expect } from "vitest";
import type { PluggedInMaterial } from "../../../../src/cli/verbs/import/ca-entries.ts";
import {
  type ImportedAuthority,
  verifyPluggedIn,
} from "../../../../src/cli/verbs/import/verify.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";
import { now, operatorErrorOf } from "../../../testkit/pki/plugged-in.ts";

export const verify = (material: PluggedInMaterial): Promise<ImportedAuthority> =>
  verifyPluggedIn(material, clusterLocal, now);

export const linesFor = (material: PluggedInMaterial): Promise<readonly string[]> =>
  operatorErrorOf(() => verify(material));

/** Requires that a CA is refused for one reason, in a line with this text. */
export async function requireRefused(
  material: PluggedInMaterial,
  text: string | RegExp,
): Promise<void> {
  const line =
    typeof text === "string" ? expect.stringContaining(text) : expect.stringMatching(text);
  expect(await linesFor(material)).toEqual([line]);
}

/** Requires that a CA is taken with one warning that has this text. */
export async function requireWarned(material: PluggedInMaterial, text: string): Promise<void> {
  expect((await verify(material)).warnings).toEqual([expect.stringContaining(text)]);
}
