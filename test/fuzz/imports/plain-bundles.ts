import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import type { PluggedInMaterial } from "../../../src/cli/verbs/import/ca-entries.ts";
import {
  createCa,
  generateKeys,
  materialOf,
  rsa,
  type TestCa,
} from "../../testkit/pki/plugged-in.ts";
import { extensionRows } from "./plain-extensions.ts";

/** A plugged-in CA as a company's tools may make it. The same list every time. */
interface PlainBundle {
  readonly name: string;
  readonly material: PluggedInMaterial;
  /** What the import says of it; it takes a bundle without one. */
  readonly refusal?: RegExp;
}

type Keys = Readonly<Record<string, CryptoKeyPair>>;

const keyKinds = {
  "P-256": { name: "ECDSA", namedCurve: "P-256" },
  "P-384": { name: "ECDSA", namedCurve: "P-384" },
  "P-521": { name: "ECDSA", namedCurve: "P-521" },
  "RSA-1024": rsa(1024),
  "RSA-2048": rsa(2048),
  "RSA-3072": rsa(3072),
  "RSA-4096": rsa(4096),
  Ed25519: { name: "Ed25519", namedCurve: "" },
} as const;

const refusedKeys: Readonly<Record<string, RegExp>> = {
  "RSA-1024": /has a key of the wrong kind or strength/,
};

/** One key of each kind: those of RSA take seconds. */
async function generateAllKeys(): Promise<Keys> {
  const made = Object.entries(keyKinds).map(async ([kind, algorithm]) => {
    return [kind, await generateKeys(algorithm)] as const;
  });
  return Object.fromEntries(await Promise.all(made));
}

type Identifiers = "both" | "no SKI" | "no AKI" | "neither";

const identifierOids = { ski: "2.5.29.14", aki: "2.5.29.35" } as const;

async function identifiersOf(
  kind: Identifiers,
  keys: CryptoKeyPair,
  signer: CryptoKeyPair,
): Promise<readonly x509.Extension[]> {
  const ski = await x509.SubjectKeyIdentifierExtension.create(keys.publicKey);
  const aki = await x509.AuthorityKeyIdentifierExtension.create(signer.publicKey);
  const lacking = { both: "", "no SKI": identifierOids.ski, "no AKI": identifierOids.aki };
  if (kind === "neither") return [];
  return [ski, aki].filter(({ type }) => type !== lacking[kind]);
}

const { keyCertSign, cRLSign } = x509.KeyUsageFlags;

/** The extensions of a CA, of which one may be another, or missing (an empty value). */
function extensionsWith(other?: x509.Extension): readonly x509.Extension[] {
  const usual = [
    new x509.BasicConstraintsExtension(true, undefined, true),
    new x509.KeyUsagesExtension(keyCertSign | cRLSign, true),
  ];
  if (!other) return usual;
  const rest = usual.filter(({ type }) => type !== other.type);
  return other.value.byteLength === 0 ? rest : [...rest, other];
}

interface CaOptions {
  readonly issuer?: TestCa;
  readonly keys: CryptoKeyPair;
  readonly identifiers?: Identifiers;
  readonly other?: x509.Extension | undefined;
  readonly hash?: string;
}

async function ca(name: string, options: CaOptions): Promise<TestCa> {
  const { issuer, keys, identifiers = "both", other, hash } = options;
  const own = await identifiersOf(identifiers, keys, issuer?.keys ?? keys);
  return createCa(`O=mesh,CN=${name}`, {
    keys,
    extensions: [...extensionsWith(other), ...own],
    lacksKeyIdentifiers: true,
    ...(issuer && { issuer }),
    ...(hash && { hash }),
  });
}

/** The CAs of a path from the root down, of which an operator has each but perhaps the root. */
function bundleOf(path: readonly TestCa[], anchor = path[0]): PluggedInMaterial {
  const authority = path.at(-1);
  if (!authority || !anchor) throw new Error("a path without a CA");
  const above = path.slice(path.indexOf(anchor) + 1).toReversed();
  const chain = (above.length > 0 ? above : [authority]).map(({ pem }) => pem).join("");
  return materialOf(authority, { chain, roots: anchor.pem });
}

/** Each kind of key below each. */
async function keyBundles(keys: Keys): Promise<readonly PlainBundle[]> {
  const bundles: PlainBundle[] = [];
  for (const [above, rootKeys] of Object.entries(keys)) {
    const root = await ca("root", { keys: rootKeys });
    for (const [below, own] of Object.entries(keys)) {
      const refusal = refusedKeys[below] ?? refusedKeys[above];
      const path = [root, await ca("mesh", { issuer: root, keys: own })];
      const name = `${below} below ${above}`;
      bundles.push({ name, material: bundleOf(path), ...(refusal && { refusal }) });
    }
  }
  return bundles;
}

/** Signatures by each hash, of each family of keys. */
async function hashBundles(keys: Keys): Promise<readonly PlainBundle[]> {
  const bundles: PlainBundle[] = [];
  for (const kind of ["P-256", "P-384", "RSA-2048"]) {
    for (const hash of ["SHA-1", "SHA-256", "SHA-384", "SHA-512"]) {
      const own = kind === "RSA-2048" ? await generateKeys(rsa(2048, hash)) : keys[kind];
      const root = await ca("root", { keys: required(own) });
      const path = [root, await ca("mesh", { issuer: root, keys: required(keys["P-256"]), hash })];
      const refusal = hash === "SHA-1" ? /is signed with SHA-1, which verifiers refuse/ : undefined;
      const name = `signed by ${kind} with ${hash}`;
      bundles.push({ name, material: bundleOf(path), ...(refusal && { refusal }) });
    }
  }
  return bundles;
}

function required(keys: CryptoKeyPair | undefined): CryptoKeyPair {
  if (!keys) throw new Error("a kind of key was not made");
  return keys;
}

/** No intermediate to eight, below a root or below an anchor that another CA has signed, with and without key identifiers. */
async function depthBundles(): Promise<readonly PlainBundle[]> {
  const bundles: PlainBundle[] = [];
  const keys = await Promise.all(Array.from({ length: 10 }, () => generateKeys()));
  for (const identifiers of ["both", "no SKI", "no AKI", "neither"] as const) {
    let issuer: TestCa | undefined;
    const path: TestCa[] = [];
    for (const [depth, own] of keys.entries()) {
      issuer = await ca(`${depth}`, { keys: own, identifiers, ...(issuer && { issuer }) });
      path.push(issuer);
      const below = path.length - 1;
      const told = `${identifiers === "both" ? "both key identifiers" : identifiers}`;
      if (below <= 8) {
        const name = `${below} intermediates, ${told}`;
        bundles.push({ name, material: bundleOf([...path]), ...tooDeep(below) });
      }
      if (below < 1) continue;
      const name = `${below - 1} intermediates below an anchor that is not self-signed, ${told}`;
      bundles.push({ name, material: bundleOf([...path], path[1]), ...tooDeep(below - 1) });
    }
  }
  return bundles;
}

const tooDeep = (intermediates: number) =>
  intermediates > 6 ? { refusal: /intermediates; ztunnel verifies 6/ } : {};

/** Each extension in an intermediate that signs leaves. */
async function extensionBundles(keys: Keys): Promise<readonly PlainBundle[]> {
  const [rootKeys, own] = [required(keys["P-256"]), await generateKeys()];
  const root = await ca("root", { keys: rootKeys });
  const bundles: PlainBundle[] = [];
  for (const [name, oid, value, critical, not] of extensionRows) {
    for (const isCritical of value.length === 0 ? [true] : [true, false]) {
      const other = new x509.Extension(oid, isCritical, value);
      const path = [root, await ca("mesh", { issuer: root, keys: own, other })];
      const refusal = isCritical ? critical : not;
      const told = `${name}${isCritical ? ", critical" : ""}`;
      bundles.push({ name: told, material: bundleOf(path), ...(refusal && { refusal }) });
    }
  }
  return bundles;
}

/** The whole corpus, in one order. */
export async function plainBundles(): Promise<readonly PlainBundle[]> {
  const keys = await generateAllKeys();
  return [
    ...(await keyBundles(keys)),
    ...(await hashBundles(keys)),
    ...(await depthBundles()),
    ...(await extensionBundles(keys)),
  ];
}
