import type { AuthorityKey } from "../src/pki/authority/new-authority.ts";
import type { OpenAuthority } from "../src/pki/authority/signing-authority.ts";
import type { SpiffeId } from "../src/pki/spiffe-id.ts";
import { Leaf } from "../src/pki/x509/leaf/certificate-signer.ts";
import { addSeconds, wholeSeconds } from "../src/pki/x509/validity.ts";
import { createBenchIssuer } from "./crl-rows.ts";
import { median } from "./measurement/median.ts";
import type { Row } from "./measurement/report.ts";

const kinds: readonly AuthorityKey[] = ["EC-P256", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"];
const [rounds, leavesInRound] = [21, 20];

/** CPU and size of a leaf that ML-DSA signs, beside EC: the same key, linted and signed by WebCrypto. */
export async function postQuantumRows(): Promise<Row[]> {
  const now = wholeSeconds(new Date());
  const issuers = await Promise.all(kinds.map((kind) => createBenchIssuer(now, kind)));
  const costs: number[][] = kinds.map(() => []);
  const sizes: number[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const [i, issuer] of issuers.entries()) {
      const before = process.cpuUsage();
      for (let j = 0; j < leavesInRound; j++) sizes[i] = await leafOctets(issuer, issuers, now);
      const { user, system } = process.cpuUsage(before);
      costs[i]?.push((user + system) / leavesInRound);
    }
  }
  const [ofEc = []] = costs;
  return kinds.flatMap((kind, i) => [
    { name: `octets of a leaf signed with ${kind}`, value: sizes[i] ?? 0 },
    {
      name: `a leaf signed with ${kind} / EC-P256, CPU`,
      value: median((costs[i] ?? []).map((cost, round) => cost / (ofEc[round] ?? cost))),
    },
  ]);
}

async function leafOctets(
  issuer: OpenAuthority,
  [ec]: readonly OpenAuthority[],
  now: Date,
): Promise<number> {
  if (!ec) throw new Error("no authority on P-256");
  const { der } = await Leaf.issue(issuer, {
    spiffeId: "spiffe://cluster.local/ns/shop/sa/cart" as SpiffeId,
    publicKey: ec.authority.publicKey,
    validity: { notBefore: now, notAfter: addSeconds(now, 3600) },
    proof: { provedAt: now, issuer: new Uint8Array(16), isImpersonated: false },
  });
  return der.length;
}
