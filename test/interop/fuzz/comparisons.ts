import { CertificateVerifier } from "../../../src/authn/certificate-verifier.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { CaCertificate } from "../../../src/pki/path/certification-path.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import { CertificateSigningRequest } from "../../../src/pki/x509/certificate-signing-request.ts";
import {
  authorityKey,
  leafCertificate,
  rootCertificates,
  signedCertificate,
} from "../../fuzz/corpus/certificates.ts";
import { oneOf } from "../../fuzz/mutation/choice.ts";
import { mutateDer } from "../../fuzz/mutation/der.ts";
import { certificate } from "../../fuzz/targets/certificate.ts";
import { csr } from "../../fuzz/targets/csr/csr.ts";
import type { Random } from "../../simulation/random.ts";
import { tokenIssuerWithoutKeys } from "../../testkit/callers/token-issuers.ts";
import { changeAt, elementAt, inHex, type Octets } from "../../testkit/der/mutation.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { csrPem } from "../../testkit/pki/csr.ts";
import { type GoFacts, type Question, verdictQuestion } from "./oracle.ts";

/** Rampart's reading of the octets. */
type Facts = Pick<GoFacts, "spki" | "serial" | "notBefore" | "notAfter" | "uris">;

/** A boundary at which Go reads what Rampart reads. */
export interface Comparison {
  readonly name: string;
  readonly generate: (random: Random) => Octets;
  /** @throws CaError or DerError for what Rampart refuses. */
  readonly read: (octets: Octets) => Promise<Facts>;
  readonly question: (octets: Octets) => Question;
}

const factsOf = ({ toBeSigned }: Certificate): Facts => ({
  spki: inHex(toBeSigned.spki),
  serial: inHex(toBeSigned.serialNumber).replace(/^0+(?=.)/, ""),
  notBefore: toBeSigned.validity.notBefore.getTime() / 1000,
  notAfter: toBeSigned.validity.notAfter.getTime() / 1000,
});

const requests: Comparison = {
  name: "CSR",
  generate: csr.generate,
  read: async (der) => {
    const { spki } = await CertificateSigningRequest.parse(csrPem(der), nodeCryptoProvider);
    return { spki: inHex(spki) };
  },
  question: (octets) => ({ kind: "request", octets }),
};

const certificates: Comparison = {
  name: "certificate",
  generate: certificate.generate,
  read: async (der) => factsOf(Certificate.parse(der)),
  question: (octets) => ({ kind: "certificate", octets }),
};

const roots: Comparison = {
  ...certificates,
  name: "root",
  read: async (der) => {
    const root = CaCertificate.parse(der, "a root");
    nodeCryptoProvider.requireReadable(der);
    const uris = root.claims.names.filter(({ kind }) => kind === "uri").map(({ text }) => text);
    return { ...factsOf(root), uris };
  },
};

/** Within the life of the corpus's certificates, and so soon that a leaf without a proof is renewed. */
const now = new Date("2026-03-01T00:01:00Z");
const [authorityRoot = Buffer.alloc(0)] = rootCertificates;
const schedule = { publishedFrom: now, signsFrom: now, signsUntil: now, retiresAt: now };
const authority = await SigningAuthority.create(
  { certificate: authorityRoot, intermediates: [], roots: [authorityRoot] },
  schedule,
);

const verify = CertificateVerifier.create({
  trustDomain: clusterLocal,
  vouchingAt: async () => [authority],
  isRevoked: async () => false,
  issuers: [tokenIssuerWithoutKeys("https://a.test")],
  cryptoProvider: nodeCryptoProvider,
});

/** The certificate that a client shows, under an authority that has signed every second one. */
const clients: Comparison = {
  name: "client certificate",
  generate: (random) => {
    if (random.chance(0.3)) return mutateDer(random, leafCertificate);
    const fields = elementAt(leafCertificate, [0]);
    const extensions = [7];
    const changed = changeAt(fields, oneOf(random, [[], extensions]), (element) =>
      mutateDer(random, element),
    );
    return signedCertificate(authorityKey("P-256"), changed);
  },
  read: async (der) => {
    const { spiffeId } = await verify(der, now);
    return { ...factsOf(Certificate.parse(der)), uris: [spiffeId] };
  },
  question: (octets) => verdictQuestion(authorityRoot, octets, now),
};

export const comparisons: readonly Comparison[] = [requests, certificates, roots, clients];

/** The difference between the two readings of some octets, if there is one. */
export async function differenceIn(
  { read }: Comparison,
  octets: Octets,
  go: GoFacts,
): Promise<string | undefined> {
  const ours = await readOrReason(() => read(octets));
  if (typeof ours === "string") {
    return go.error === undefined && go.strict === undefined
      ? `refused (${ours}), read by Go`
      : undefined;
  }
  if (go.error !== undefined) return `accepted, refused by Go (${go.error})`;
  for (const [name, value] of Object.entries(ours)) {
    const other = go[name as keyof Facts];
    if (String(value) !== String(other ?? "")) return `another ${name}: ${value}, by Go ${other}`;
  }
  return go.strict === undefined
    ? undefined
    : `accepted, refused by Go beside the key (${go.strict})`;
}

async function readOrReason(read: () => Promise<Facts>): Promise<Facts | string> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof DerError) return error.message;
    if (!(error instanceof CaError)) throw error;
    const { reason } = error.refusal;
    return "check" in error.refusal ? `${error.refusal.check}` : reason;
  }
}
