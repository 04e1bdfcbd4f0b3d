import { expect, test } from "vitest";
import type { PluggedInMaterial } from "../../../../src/cli/verbs/import/ca-entries.ts";
import { loadPluggedIn } from "../../../../src/cli/verbs/import/load.ts";
import {
  type ImportedAuthority,
  verifyPluggedIn,
} from "../../../../src/cli/verbs/import/verify.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { caseRandom } from "../../../fuzz/campaign/case-random.ts";
import { faultOfHandshake } from "../../../fuzz/imports/handshake.ts";
import { leafUnder } from "../../../fuzz/imports/leaf-under.ts";
import { mutatedBundle } from "../../../fuzz/imports/mutated-bundle.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";
import {
  copyVectors,
  operatorErrorOf,
  strangersKey,
  vectorFolders,
} from "../../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

// TLS reads the machine's clock, so the import does, too. Istio's vectors are valid until 2030.
const now = new Date();

const verify = (material: PluggedInMaterial) => verifyPluggedIn(material, clusterLocal, now);

/** Why workloads of an imported CA refuse each other. */
const faultIn = async (imported: ImportedAuthority) => faultOfHandshake(await leafUnder(imported));

const vectors = async (files: Readonly<Record<string, string>>) =>
  loadPluggedIn(await copyVectors(await temporaryFolder(), files));

test.for(Object.entries(vectorFolders))("%s signs for a mesh", async ([, files]) => {
  const imported = await verify(await vectors(files));
  expect(imported.certificates.intermediates).toEqual([imported.certificates.certificate]);
  expect(imported.certificates.roots).toHaveLength(1);
  expect(await faultIn(imported)).toBeUndefined();
});

test("refuses Istio's third generation only because its key is another CA's", async () => {
  const material = await vectors(strangersKey);
  expect(await operatorErrorOf(() => verify(material))).toEqual([
    expect.stringContaining("ca-key.pem: the cert does not match the key"),
  ]);
});

test("the self-signed CA of a real cluster signs for a mesh", async () => {
  const imported = await verify(await loadPluggedIn("test/vectors/istio-ca-secret.yaml"));
  const { certificate } = imported.certificates;
  expect(imported.certificates).toEqual({ certificate, intermediates: [], roots: [certificate] });
  expect(imported.warnings).toEqual([
    expect.stringMatching(/has no subject key identifier; `openssl -x509_strict` and Python/),
  ]);
  expect(await faultIn(imported)).toBeUndefined();
});

// `npm run test:interop own-root` asks istiod, Go, OpenSSL and GnuTLS about more of them.
test("no mutated CA is imported whose workloads OpenSSL would refuse", async () => {
  const cases = 60;
  const [faults, accepted]: [string[], string[]] = [[], []];
  for (let i = 0; i < cases; i++) {
    const { mutations, material } = await mutatedBundle(caseRandom(0x5eed, "import", i), now);
    const imported = await verify(material).catch((error: unknown) => error);
    if (imported instanceof OperatorError) continue;
    accepted.push(mutations.join("; "));
    const fault = await faultIn(imported as ImportedAuthority);
    if (fault) faults.push(`case ${i} (${mutations.join("; ")}): ${fault}`);
  }
  expect(faults).toEqual([]);
  // The property would hold for an import that refuses everything, too.
  expect(accepted.length).toBeGreaterThan(cases / 10);
  expect(accepted.length).toBeLessThan(cases);
});
