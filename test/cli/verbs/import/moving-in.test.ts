import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { loadPluggedIn } from "../../../../src/cli/verbs/import/load.ts";
import {
  type ImportedAuthority,
  verifyPluggedIn,
} from "../../../../src/cli/verbs/import/verify.ts";
import { AuthorityRecord } from "../../../../src/custody/authority-record.ts";
import {
  type OpenAuthority,
  SigningAuthority,
} from "../../../../src/pki/authority/signing-authority.ts";
import { toSpiffeBundle } from "../../../../src/pki/authority/spiffe-bundle.ts";
import { Pem } from "../../../../src/pki/encoding/pem.ts";
import { Leaf } from "../../../../src/pki/x509/leaf/certificate-signer.ts";
import { Validity } from "../../../../src/pki/x509/validity.ts";
import {
  clusterLocal,
  createKekRing,
  scheduleAfter,
} from "../../../testkit/ca/sealed-authorities.ts";
import { createWorkloadKey } from "../../../testkit/callers/workload-key.ts";
import { handshake, type PeerCredentials } from "../../../testkit/network/tls-peer.ts";
import { proved, workload } from "../../../testkit/pki/certificates.ts";
import { parseCsr } from "../../../testkit/pki/csr-parsing.ts";
import {
  copyVectors,
  createCa,
  materialOf,
  operatorErrorOf,
  strangersKey,
  vectorFolders,
} from "../../../testkit/pki/plugged-in.ts";
import { openRecord } from "../../../testkit/pki/record-opening.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

// TLS reads the machine's clock, so the import does, too. Istio's vectors are valid until 2030.
const now = new Date();

/** The authority after it was sealed, stored and opened again. */
async function reopened(imported: ImportedAuthority): Promise<OpenAuthority> {
  const keks = await createKekRing();
  const schedule = scheduleAfter(now, [0, 0, 86_400, 172_800]);
  const authority = await SigningAuthority.create(imported.certificates, schedule);
  const created = { authority, extractablePrivateKey: imported.privateKey };
  return openRecord(
    await AuthorityRecord.seal(created, { trustDomain: clusterLocal, keks }),
    clusterLocal,
    keks,
  );
}

async function obtain(issuer: OpenAuthority, name: string): Promise<PeerCredentials> {
  const spiffeId = workload("foo", name);
  const { privateKey, csrPem } = await createWorkloadKey(spiffeId);
  const { toBeSigned } = issuer.authority.certificate;
  const lifetimes = { defaultSeconds: 3600, maximumSeconds: 3600 };
  const { der } = await Leaf.issue(issuer, {
    spiffeId,
    publicKey: await parseCsr(csrPem),
    validity: Validity.ofLeaf(0n, lifetimes, toBeSigned.validity, now),
    proof: proved,
  });
  const { intermediates, roots } = issuer.authority;
  const pem = (certificates: readonly Uint8Array[]) =>
    certificates.map((one) => Pem.format("CERTIFICATE", one)).join("");
  return {
    spiffeId,
    chainPem: pem([der, ...intermediates]),
    keyPem: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    trustBundlePem: pem(roots),
  };
}

/** Verifies a chain up to its self-signed root with OpenSSL. */
function expectToVerify({ chainPem, trustBundlePem }: PeerCredentials): void {
  const certificates = `${chainPem}${trustBundlePem}`
    .split(/(?<=-----END CERTIFICATE-----\n)/)
    .map((pem) => new X509Certificate(pem));
  for (const [i, certificate] of certificates.entries()) {
    const issuer = certificates[i + 1] ?? certificate;
    expect(certificate.checkIssued(issuer)).toBe(true);
    expect(certificate.verify(issuer.publicKey)).toBe(true);
  }
}

async function expectToServe(imported: ImportedAuthority): Promise<void> {
  const issuer = await reopened(imported);
  const [httpbin, sleep] = [await obtain(issuer, "httpbin"), await obtain(issuer, "sleep")];
  expectToVerify(httpbin);
  await handshake(httpbin, sleep);
  await handshake(sleep, httpbin);
  const roots = [...imported.certificates.roots, ...imported.additionalRoots];
  expect((await toSpiffeBundle(roots, 1, 60)).keys).toHaveLength(roots.length);
}

test.for(Object.entries(vectorFolders))("%s signs for a mesh", async ([, files]) => {
  const folder = await copyVectors(await temporaryFolder(), files);
  const imported = await verifyPluggedIn(await loadPluggedIn(folder), clusterLocal, now);
  expect(imported.certificates.intermediates).toEqual([imported.certificates.certificate]);
  expect(imported.certificates.roots).toHaveLength(1);
  await expectToServe(imported);
});

test("refuses Istio's third generation only because its key is another CA's", async () => {
  const folder = await copyVectors(await temporaryFolder(), strangersKey);
  const material = await loadPluggedIn(folder);
  const lines = await operatorErrorOf(() => verifyPluggedIn(material, clusterLocal, now));
  expect(lines).toEqual([expect.stringContaining("ca-key.pem: the cert does not match the key")]);
});

test("the self-signed CA of a real cluster signs for a mesh", async () => {
  const material = await loadPluggedIn("test/vectors/istio-ca-secret.yaml");
  const imported = await verifyPluggedIn(material, clusterLocal, now);
  const { certificate } = imported.certificates;
  expect(imported.certificates).toEqual({ certificate, intermediates: [], roots: [certificate] });
  expect(imported.warnings).toEqual([
    expect.stringMatching(/has no subject key identifier; `openssl -x509_strict` and Python/),
  ]);
  await expectToServe(imported);
});

test("an authority two steps below its root signs for a mesh, its chain in any order", async () => {
  const root = await createCa("O=mesh,CN=root");
  const upper = await createCa("O=mesh,CN=upper", { issuer: root });
  const authority = await createCa("O=mesh,CN=authority", { issuer: upper });
  for (const chain of [authority.pem + upper.pem, upper.pem + authority.pem]) {
    const material = materialOf(authority, { chain, roots: root.pem });
    await expectToServe(await verifyPluggedIn(material, clusterLocal, now));
  }
});

test("publishes combined roots, none twice", async () => {
  const folder = await copyVectors(await temporaryFolder(), vectorFolders["istio-cacerts"] ?? {});
  for (const combined of ["root-cert-combined.pem", "root-cert-combined-2.pem"]) {
    const material = await loadPluggedIn(folder, `test/vectors/istio-cacerts/${combined}`);
    const imported = await verifyPluggedIn(material, clusterLocal, now);
    expect(imported.additionalRoots.map((root) => new X509Certificate(root).subject)).toEqual([
      "O=Istio\nCN=Root CA",
    ]);
    await expectToServe(imported);
  }
});
