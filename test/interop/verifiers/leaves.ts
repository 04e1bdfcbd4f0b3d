import type { ServiceKey } from "../../../src/custody/key-service/key-service.ts";
import { certifyBelow, rootFor } from "../../../src/custody/key-service/service-root.ts";
import {
  type AuthorityKey,
  IntermediateRequest,
  NewAuthority,
} from "../../../src/pki/authority/new-authority.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { clusterLocal, scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import {
  createServiceSigningKey,
  type SigningKind,
} from "../../testkit/key-services/key-service.ts";
import { leafUnder } from "../../testkit/pki/held-leaf.ts";
import type { JudgedLeaf } from "../judges.ts";

/** A leaf, and whether a verifier should accept it, unless a warning names that verifier. */
export interface Case {
  readonly name: string;
  readonly leaf: JudgedLeaf;
  readonly isGood: boolean;
  readonly warnings: readonly string[];
}

const keys: readonly AuthorityKey[] = ["EC-P256", "EC-P384", "RSA-2048"];
const spiffeId = "spiffe://cluster.local/ns/shop/sa/cart";

/** Leaves with the private extension of an identity's proof, by each kind of authority; and two that no verifier may accept. */
export async function createCases(): Promise<Case[]> {
  const cases: Case[] = [];
  for (const key of keys) cases.push(...(await casesOf(key)));
  const [first, , other] = cases;
  if (!first || !other) throw new Error("there are leaves");
  const kinds: readonly SigningKind[] = ["EC-P256", "EC-P384", "RSA-2048"];
  return [
    ...cases,
    ...(await Promise.all(kinds.map(caseBelow))),
    bad("another authority's", { ...first.leaf, rootPem: other.leaf.rootPem }),
    bad("with another proof", { ...first.leaf, leafPem: withOtherProof(first.leaf.leafPem) }),
  ];
}

const good = (name: string, leaf: JudgedLeaf): Case => ({
  name,
  leaf: { ...leaf, spiffeId },
  isGood: true,
  warnings: [],
});
const bad = (name: string, leaf: JudgedLeaf): Case => ({ ...good(name, leaf), isGood: false });

async function casesOf(key: AuthorityKey): Promise<Case[]> {
  const now = wholeSeconds(new Date());
  const schedule = scheduleAfter(now, [-7200, -3600, 3600, 7200]);
  const authority = await NewAuthority.create(clusterLocal, key, schedule);
  const rootPem = Pem.format("CERTIFICATE", authority.authority.certificate.der);
  const proof = {
    provedAt: addSeconds(now, -600),
    issuer: IdentityProof.issuerDigest("https://a.test"),
  };
  return Promise.all(
    [false, true].map(async (isImpersonated) => {
      const { chainPem } = await leafUnder(authority, spiffeId, { ...proof, isImpersonated });
      const name = `${key}, by ${isImpersonated ? "a node proxy" : "a token"}`;
      return good(name, { rootPem, leafPem: chainPem, intermediatesPem: "" });
    }),
  );
}

/** A leaf below a root whose key a service holds. */
async function caseBelow(kind: SigningKind): Promise<Case> {
  const now = wholeSeconds(new Date());
  const { spki, sign } = await createServiceSigningKey(kind);
  const refuse = (): never => {
    throw new Error("a key that signs");
  };
  const key: ServiceKey = {
    uri: "played://key",
    call: refuse,
    unwrap: refuse,
    sign: async (bytes) => new Uint8Array(await sign(bytes)),
  };
  const life = { trustDomain: clusterLocal, lifetimeSeconds: 86_400, now };
  const root = await rootFor([key], SubjectPublicKey.parse(new Uint8Array(spki)), life);
  const { csr, extractablePrivateKey } = await IntermediateRequest.create(clusterLocal, "EC-P256");
  const { chain, roots } = await certifyBelow(
    { keys: [key], certificates: [root], trustDomain: clusterLocal, clock: () => now },
    { csr, lifetimeSeconds: 43_200 },
  );
  const [certificate = root] = chain;
  const schedule = scheduleAfter(now, [-7200, -3600, 3600, 7200]);
  const certificates = { certificate, intermediates: chain, roots };
  const authority = await SigningAuthority.create(certificates, schedule);
  const proof = {
    provedAt: addSeconds(now, -60),
    issuer: IdentityProof.issuerDigest("https://a.test"),
  };
  const by = { ...proof, isImpersonated: false };
  const { chainPem } = await leafUnder({ authority, extractablePrivateKey }, spiffeId, by);
  return good(`${kind} in a key service`, {
    rootPem: Pem.format("CERTIFICATE", root),
    leafPem: chainPem,
    intermediatesPem: Pem.format("CERTIFICATE", certificate),
  });
}

/** The leaf with a bit of the digest of its issuer changed, and so of what is signed. */
function withOtherProof(pem: string): string {
  const der = Buffer.from(pem.replace(/-----.*-----/g, ""), "base64");
  const at = der.indexOf(IdentityProof.issuerDigest("https://a.test"));
  der.writeUInt8((der[at] ?? 0) ^ 1, at);
  return Pem.format("CERTIFICATE", new Uint8Array(der));
}
