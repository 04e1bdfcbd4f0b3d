import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import type { PluggedInMaterial } from "../../../src/cli/verbs/import/ca-entries.ts";
import {
  createCa,
  generateKeys,
  isCa,
  materialOf,
  maySign,
  rsa,
  type TestCa,
} from "../../testkit/pki/plugged-in.ts";
import { extensionRows } from "./plain-extensions.ts";

/** A plugged-in CA as a company's tools may make it. The same list every time. */
interface PlainBundle {
  readonly name: string;
  readonly material: PluggedInMaterial;
  /** What the import says of it; it takes a bundle without one. */
  readonly refusal: RegExp | undefined;
}

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

type Keys = Readonly<Record<keyof typeof keyKinds, CryptoKeyPair>>;

/** One key of each kind: those of RSA take seconds. */
async function generateAllKeys(): Promise<Keys> {
  const made = Object.entries(keyKinds).map(async ([kind, algorithm]) => {
    return [kind, await generateKeys(algorithm)] as const;
  });
  return Object.fromEntries(await Promise.all(made)) as Keys;
}

const bothIdentifiers = ["2.5.29.14", "2.5.29.35"];

interface CaOptions {
  readonly issuer?: TestCa | undefined;
  readonly keys: CryptoKeyPair;
  /** The key identifiers that it has, of its own key and of its issuer's. */
  readonly identifiers?: readonly string[];
  /** In place of a usual extension; without a value, the usual one is missing. */
  readonly other?: x509.Extension;
  readonly hash?: string;
}

async function ca(name: string, options: CaOptions): Promise<TestCa> {
  const { issuer, keys, identifiers = bothIdentifiers, other, hash = "SHA-256" } = options;
  const own = [
    await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    await x509.AuthorityKeyIdentifierExtension.create((issuer?.keys ?? keys).publicKey),
  ].filter(({ type }) => identifiers.includes(type));
  const usual = [isCa(), maySign].filter(({ type }) => type !== other?.type);
  const extensions = [...usual, ...(other?.value.byteLength ? [other] : []), ...own];
  const departures = { keys, extensions, lacksKeyIdentifiers: true, hash };
  return createCa(`O=mesh,CN=${name}`, { ...departures, ...(issuer && { issuer }) });
}

/** The CAs of a path from the root down, of which an operator has each but perhaps the root. */
function bundle(
  name: string,
  path: readonly TestCa[],
  refusal?: RegExp,
  anchor = path[0],
): PlainBundle {
  const authority = path.at(-1);
  if (!authority || !anchor) throw new Error("a path without a CA");
  const above = path.slice(path.indexOf(anchor) + 1).toReversed();
  const chain = (above.length > 0 ? above : [authority]).map(({ pem }) => pem).join("");
  return { name, material: materialOf(authority, { chain, roots: anchor.pem }), refusal };
}

/** Each kind of key below each. */
async function* keyBundles(keys: Keys): AsyncGenerator<PlainBundle> {
  for (const [above, rootKeys] of Object.entries(keys)) {
    const root = await ca("root", { keys: rootKeys });
    for (const [below, own] of Object.entries(keys)) {
      const isWeak = [above, below].includes("RSA-1024");
      const refusal = isWeak ? /has a key of the wrong kind or strength/ : undefined;
      const path = [root, await ca("mesh", { issuer: root, keys: own })];
      yield bundle(`${below} below ${above}`, path, refusal);
    }
  }
}

/** Signatures by each hash, of each family of keys. */
async function* hashBundles(keys: Keys): AsyncGenerator<PlainBundle> {
  for (const kind of ["P-256", "P-384", "RSA-2048"] as const) {
    for (const hash of ["SHA-1", "SHA-256", "SHA-384", "SHA-512"]) {
      const own = kind === "RSA-2048" ? await generateKeys(rsa(2048, hash)) : keys[kind];
      const root = await ca("root", { keys: own });
      const path = [root, await ca("mesh", { issuer: root, keys: keys["P-256"], hash })];
      const refusal = hash === "SHA-1" ? /is signed with SHA-1, which verifiers refuse/ : undefined;
      yield bundle(`signed by ${kind} with ${hash}`, path, refusal);
    }
  }
}

/** No intermediate to eight, below a root or below an anchor that another CA has signed, with and without key identifiers. */
async function* depthBundles(): AsyncGenerator<PlainBundle> {
  const keys = await Promise.all(Array.from({ length: 10 }, () => generateKeys()));
  const [ski = "", aki = ""] = bothIdentifiers;
  for (const identifiers of [bothIdentifiers, [aki], [ski], []]) {
    const path: TestCa[] = [];
    for (const [below, own] of keys.entries()) {
      path.push(await ca(`${below}`, { keys: own, identifiers, issuer: path.at(-1) }));
      const name = `${below} intermediates, key identifiers ${identifiers}`;
      if (below <= 8) yield bundle(name, path, tooDeep(below));
      const partial = `${name}, the first of which is the anchor`;
      if (below > 0) yield bundle(partial, path, tooDeep(below - 1), path[1]);
    }
  }
}

const tooDeep = (intermediates: number): RegExp | undefined =>
  intermediates > 6 ? /intermediates; ztunnel verifies 6/ : undefined;

/** Each extension in an intermediate that signs leaves. */
async function* extensionBundles(keys: Keys): AsyncGenerator<PlainBundle> {
  const own = await generateKeys();
  const root = await ca("root", { keys: keys["P-256"] });
  for (const [name, oid, value, critical, not] of extensionRows) {
    for (const isCritical of value.length === 0 ? [true] : [true, false]) {
      const other = new x509.Extension(oid, isCritical, value);
      const path = [root, await ca("mesh", { issuer: root, keys: own, other })];
      yield bundle(`${name}${isCritical ? ", critical" : ""}`, path, isCritical ? critical : not);
    }
  }
}

/** The whole corpus, in one order. */
export async function plainBundles(): Promise<readonly PlainBundle[]> {
  const keys = await generateAllKeys();
  return [
    ...(await Array.fromAsync(keyBundles(keys))),
    ...(await Array.fromAsync(hashBundles(keys))),
    ...(await Array.fromAsync(depthBundles())),
    ...(await Array.fromAsync(extensionBundles(keys))),
  ];
}
