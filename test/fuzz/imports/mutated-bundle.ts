import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import type { PluggedInMaterial } from "../../../src/cli/verbs/import/ca-entries.ts";
import type { Random } from "../../simulation/random.ts";
import { createCa, generateKeys, materialOf, type TestCa } from "../../testkit/pki/plugged-in.ts";
import { indexBelow, oneOf } from "../mutation/choice.ts";
import { certificateMutations } from "./certificate-mutations.ts";

/** The content of a CA's certificate before it is signed. */
export interface CaPlan {
  readonly extensions: readonly x509.Extension[];
  /** In hexadecimal: the content octets. */
  readonly serialNumber?: string;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

/** A plugged-in CA of which a few certificates are not what they should be, each signed by its issuer. */
export interface MutatedBundle {
  /** The mutations, and the certificates that they are of. */
  readonly mutations: readonly string[];
  readonly material: PluggedInMaterial;
}

const mostIntermediates = 8;

/** The extensions of a good CA, in the order of RFC 5280. */
async function goodPlan(keys: CryptoKeyPair, issuer: TestCa | undefined): Promise<CaPlan> {
  const issuersKey = (issuer?.keys ?? keys).publicKey;
  const { keyCertSign, cRLSign } = x509.KeyUsageFlags;
  return {
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(keyCertSign | cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuersKey),
    ],
  };
}

/** Good CAs, each below the one before it: most of a bundle is as it should be. */
const goodCas: Promise<TestCa>[] = [];

function goodCa(depth: number): Promise<TestCa> {
  goodCas[depth] ??= (async () => {
    const issuer = depth === 0 ? undefined : await goodCa(depth - 1);
    const keys = await generateKeys();
    return signed(depth, await goodPlan(keys, issuer), keys, issuer);
  })();
  return goodCas[depth];
}

const signed = (depth: number, plan: CaPlan, keys: CryptoKeyPair, issuer: TestCa | undefined) =>
  createCa(`O=mesh,CN=${depth}`, {
    ...plan,
    keys,
    lacksKeyIdentifiers: true,
    ...(issuer && { issuer }),
  });

/** Makes a CA below a few others, and mutates one or two of them. The same numbers make the same plans. */
export async function mutatedBundle(random: Random, now: Date): Promise<MutatedBundle> {
  const count = random.chance(0.15) ? indexBelow(random, mostIntermediates + 1) : 1;
  const mutated = [count, random.chance(0.3) ? indexBelow(random, count + 1) : count];
  const mutations: string[] = [];
  const cas: TestCa[] = [];
  for (let depth = 0; depth <= count; depth++) {
    if (mutations.length === 0 && !mutated.includes(depth)) {
      cas.push(await goodCa(depth));
      continue;
    }
    const [issuer, keys] = [cas.at(-1), await generateKeys()];
    let plan = await goodPlan(keys, issuer);
    for (let left = mutated.includes(depth) ? 1 + indexBelow(random, 2) : 0; left > 0; left--) {
      const [name, mutate] = oneOf(random, certificateMutations);
      plan = mutate(plan, random, now);
      mutations.push(`${depth === 0 ? "root" : `CA ${depth}`}: ${name}`);
    }
    cas.push(await signed(depth, plan, keys, issuer));
  }
  if (count > 6) mutations.push(`${count} intermediates`);
  return { mutations, material: await files(random, cas, mutations) };
}

/** Puts the certificates into files as operators do, with one of their mistakes or liberties. */
async function files(
  random: Random,
  cas: readonly TestCa[],
  mutations: string[],
): Promise<PluggedInMaterial> {
  const authority = cas.at(-1);
  const [root, upper = root] = cas;
  if (!authority || !root || !upper) throw new Error("a bundle without a CA");
  const pemsOf = (some: readonly TestCa[]) => some.map(({ pem }) => pem).join("");
  const above = cas.slice(1, -1).toReversed();
  const usual = { chain: pemsOf([authority, ...above]), roots: root.pem };
  const chosen = indexBelow(random, 12);
  if (chosen === 0 && upper !== authority) {
    mutations.push("the anchor is not self-signed");
    return materialOf(authority, { ...usual, roots: upper.pem });
  }
  if (chosen === 1) {
    mutations.push("another root beside");
    const other = await createCa("O=other");
    return materialOf(authority, { ...usual, roots: other.pem + root.pem });
  }
  if (chosen === 2) {
    mutations.push("the chain is upside down");
    return materialOf(authority, { ...usual, chain: pemsOf(cas) });
  }
  if (chosen === 3 && upper !== root) {
    const revoked = oneOf(random, cas.slice(1));
    mutations.push(`a CRL names ${revoked.name}`);
    const text = await revocationOf(cas, revoked);
    return { ...materialOf(authority, usual), crl: { name: "ca-crl.pem", text } };
  }
  return materialOf(authority, usual);
}

async function revocationOf(cas: readonly TestCa[], revoked: TestCa): Promise<string> {
  const issuer = cas[cas.indexOf(revoked) - 1] ?? revoked;
  const { serialNumber } = new x509.X509Certificate(revoked.pem);
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.name,
    thisUpdate: new Date("2026-01-01T00:00:00.000Z"),
    entries: [{ serialNumber, revocationDate: new Date("2026-01-01T00:00:00.000Z") }],
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    signingKey: issuer.keys.privateKey,
  });
  return x509.PemConverter.encode(list.rawData, "X509 CRL");
}
