import { expect, test } from "vitest";
import {
  type ImportedAuthority,
  verifyPluggedIn,
} from "../../../../src/cli/verbs/import/verify.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { caseRandom } from "../../../fuzz/campaign/case-random.ts";
import { faultOfHandshake } from "../../../fuzz/imports/handshake.ts";
import { leafUnder } from "../../../fuzz/imports/leaf-under.ts";
import { type MutatedBundle, mutatedBundle } from "../../../fuzz/imports/mutated-bundle.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";

const cases = 150;
const now = new Date();

/** The CA, or `undefined` where the import refuses it in sentences. */
async function imported({ material }: MutatedBundle): Promise<ImportedAuthority | undefined> {
  try {
    return await verifyPluggedIn(material, clusterLocal, now);
  } catch (error) {
    if (error instanceof OperatorError) return undefined;
    throw error;
  }
}

// `npm run test:interop own-root` asks istiod, Go, OpenSSL and GnuTLS about more of them.
test("no mutated CA is imported whose workloads OpenSSL would refuse", async () => {
  const [faults, accepted]: [string[], string[]] = [[], []];
  for (let i = 0; i < cases; i++) {
    const bundle = await mutatedBundle(caseRandom(0x5eed, "import", i), now);
    const ca = await imported(bundle);
    if (!ca) continue;
    accepted.push(bundle.mutations.join("; "));
    const fault = await faultOfHandshake(await leafUnder(ca, clusterLocal, now));
    if (fault) faults.push(`case ${i} (${bundle.mutations.join("; ")}): ${fault}`);
  }
  expect(faults).toEqual([]);
  // The property would hold for an import that refuses everything, too.
  expect(accepted.length).toBeGreaterThan(cases / 10);
  expect(accepted.length).toBeLessThan(cases);
});
