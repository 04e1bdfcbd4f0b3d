import { randomBytes } from "node:crypto";
import { type CrlLengths, planCrl } from "../src/ca/revocation/crl-plan.ts";
import type { RevocationContent } from "../src/custody/record-kinds.ts";
import { type AuthorityKey, NewAuthority } from "../src/pki/authority/new-authority.ts";
import { type OpenAuthority, SigningAuthority } from "../src/pki/authority/signing-authority.ts";
import { SignatureAlgorithm } from "../src/pki/signature-algorithm.ts";
import { TrustDomain } from "../src/pki/spiffe-id.ts";
import { webSigningKey } from "../src/pki/web-crypto.ts";
import { UnsignedCrl } from "../src/pki/x509/crl/signed-crl.ts";
import { addSeconds, wholeSeconds } from "../src/pki/x509/validity.ts";
import { median } from "./measurement/median.ts";
import type { Row } from "./measurement/report.ts";

const day = 86_400;
const lengths: CrlLengths = { lifetimeSeconds: day, propagationSeconds: 600 };
/** The most certificates that one statement may revoke. */
const perStatement = 4_000;

/** CPU of a whole CRL, from the statements to the signature, and its size. */
export async function crlRows(): Promise<Row[]> {
  const now = wholeSeconds(new Date());
  const issuer = await createBenchIssuer(now);
  return [
    ...(await rowsOf(issuer, { length: 1_000, rounds: 21, now })),
    ...(await rowsOf(issuer, { length: 100_000, rounds: 5, now })),
  ];
}

/** An authority on a key of this kind, which has signed for a day. */
export async function createBenchIssuer(
  now: Date,
  key: AuthorityKey = "EC-P256",
): Promise<OpenAuthority> {
  const [begin, end] = [addSeconds(now, -day), addSeconds(now, 30 * day)];
  const schedule = { publishedFrom: begin, signsFrom: begin, signsUntil: end, retiresAt: end };
  const trustDomain = TrustDomain.parse("cluster.local") as TrustDomain;
  const made = await NewAuthority.create(trustDomain, key, schedule);
  const algorithm = SignatureAlgorithm.of(made.authority.publicKey);
  return SigningAuthority.open(
    made.authority,
    webSigningKey(made.extractablePrivateKey, algorithm),
  );
}

interface Work {
  readonly length: number;
  readonly rounds: number;
  readonly now: Date;
}

async function rowsOf(issuer: OpenAuthority, { length, rounds, now }: Work): Promise<Row[]> {
  const revocations = statementsOf(issuer, length, now);
  const costs: number[] = [];
  let size = 0;
  for (let round = 0; round < rounds; round++) {
    const before = process.cpuUsage();
    const content = planCrl(issuer.authority.id, revocations, lengths, now);
    size = (await UnsignedCrl.sign(issuer, UnsignedCrl.prepare(issuer, content))).length;
    const { user, system } = process.cpuUsage(before);
    costs.push((user + system) / 1000);
  }
  const name = `CRL of ${length.toLocaleString("en")} entries`;
  return [
    { name: `${name}, planned, linted and signed, CPU`, value: median(costs), unit: "ms" },
    // Authority, number and times take a few hundred octets, each entry 36.
    { name: `${name}, octets of DER an entry`, value: (size - 400) / length, budget: 36 },
  ];
}

function statementsOf(
  { authority }: OpenAuthority,
  length: number,
  now: Date,
): readonly RevocationContent[] {
  const end = addSeconds(now, day).getTime() / 1000;
  return Array.from({ length: Math.ceil(length / perStatement) }, (_, i) => ({
    authority: authority.id,
    revokedAt: addSeconds(now, -60),
    knownFrom: now,
    reason: "unspecified" as const,
    certificates: new Map(
      Array.from({ length: Math.min(perStatement, length - i * perStatement) }, () => [
        `01${randomBytes(16).toString("hex")}`,
        end,
      ]),
    ),
  }));
}
