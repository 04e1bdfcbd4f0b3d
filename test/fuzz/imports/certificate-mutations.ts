import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import type { Random } from "../../simulation/random.ts";
import { der, hex, type Octets } from "../../testkit/der/mutation.ts";
import { indexBelow, oneOf } from "../mutation/choice.ts";
import { mutateDer } from "../mutation/der.ts";
import type { CaPlan } from "./mutated-bundle.ts";
import { directory, excluded, permitted, sequence, text, usages } from "./plain-extensions.ts";

type Mutation = (plan: CaPlan, random: Random, now: Date) => CaPlan;

const oids = {
  subjectKeyIdentifier: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  nameConstraints: "2.5.29.30",
  certificatePolicies: "2.5.29.32",
  authorityKeyIdentifier: "2.5.29.35",
  policyConstraints: "2.5.29.36",
  extKeyUsage: "2.5.29.37",
  inhibitAnyPolicy: "2.5.29.54",
  authorityInfoAccess: "1.3.6.1.5.5.7.1.1",
  netscapeCertType: "2.16.840.1.113730.1.1",
} as const;

const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
const anyUsage = "2.5.29.37.0";

/** The plan with this extension, in place of another one of its kind. */
const having = (
  { extensions, ...plan }: CaPlan,
  oid: string,
  value: Uint8Array<ArrayBuffer>,
  isCritical = false,
): CaPlan => ({
  ...plan,
  extensions: [...without(extensions, oid), new x509.Extension(oid, isCritical, value)],
});

const without = (extensions: readonly x509.Extension[], oid: string) =>
  extensions.filter(({ type }) => type !== oid);

const lacking =
  (oid: string): Mutation =>
  ({ extensions, ...plan }) => ({ ...plan, extensions: without(extensions, oid) });

const policy = (oid: string, ...qualifiers: readonly Uint8Array[]): Octets =>
  sequence(hex(oid), ...qualifiers);
const anyPolicy = policy("0604551d2000");
const ownPolicy = policy("06032a0304");

const constraints: readonly Octets[] = [
  permitted(text(0x86, "cluster.local")),
  permitted(text(0x86, ".cluster.local")),
  permitted(text(0x86, "other.test")),
  excluded(text(0x86, "other.test")),
  excluded(text(0x86, "cluster.local")),
  permitted(directory),
  excluded(directory),
  permitted(text(0x82, "mesh.test")),
  permitted(text(0x81, "mesh.test")),
  permitted(hex("87080a000000ff000000")),
  permitted(hex("8703010203")),
  permitted(text(0x82, "mesh.test"), text(0x86, "cluster.local")),
  sequence(),
];

const names: readonly Octets[] = [
  text(0x86, "spiffe://cluster.local"),
  text(0x86, "spiffe://other.test"),
  text(0x86, "spiffe://cluster.local/ns/foo/sa/bar"),
  text(0x86, "not a URI"),
  text(0x86, "spiffe://cluster.lo%zzcal"),
  text(0x82, "ca.mesh.test"),
  text(0x82, "-"),
  text(0x81, "ca@mesh.test"),
  hex("87047f000001"),
  hex("87037f0000"),
  directory,
  der(0xa0, hex("06032a0304"), der(0xa0, text(0x0c, "other"))),
].map((name) => sequence(name));

const serialNumbers = ["ff", "80", "00", "7f".repeat(20), "7f".repeat(21), "00ff", "01"];
const keyUsages = [
  "03020106",
  "030205a0",
  "03020780",
  "03020204",
  "030100",
  "0303010600",
  "03020107",
];
const pathLengths = ["", "020100", "020101", "020110", "0201ff", "02020100"];

/** Certificates of CAs as they should not be, and some as they may be. Each is one departure. */
export const certificateMutations: readonly (readonly [name: string, mutate: Mutation])[] = [
  ["anyExtendedKeyUsage alone", (plan) => having(plan, oids.extKeyUsage, usages(anyUsage))],
  [
    "extended key usages",
    (plan, random) => {
      const some = [serverAuth, clientAuth, anyUsage].filter(() => random.chance(0.6));
      return having(plan, oids.extKeyUsage, usages(...some), random.chance(0.3));
    },
  ],
  [
    "certificate policies",
    (plan, random) => {
      const some = [anyPolicy, ownPolicy, ownPolicy].filter(() => random.chance(0.5));
      return having(plan, oids.certificatePolicies, sequence(...some), random.chance(0.4));
    },
  ],
  ["a serial number", (plan, random) => ({ ...plan, serialNumber: oneOf(random, serialNumbers) })],
  ["no key usage", lacking(oids.keyUsage)],
  [
    "key usage",
    (plan, random) =>
      having(plan, oids.keyUsage, hex(oneOf(random, keyUsages)), random.chance(0.8)),
  ],
  [
    "policy constraints",
    (plan, random) => {
      const fields = [hex("800100"), hex("810100"), hex("8001ff")];
      const some = fields.filter(() => random.chance(0.4));
      return having(plan, oids.policyConstraints, sequence(...some), random.chance(0.5));
    },
  ],
  [
    "name constraints",
    (plan, random) =>
      having(plan, oids.nameConstraints, oneOf(random, constraints), random.chance(0.7)),
  ],
  [
    "names",
    (plan, random) => having(plan, oids.subjectAltName, oneOf(random, names), random.chance(0.2)),
  ],
  [
    "a path length",
    (plan, random) => {
      const value = sequence(hex("0101ff"), hex(oneOf(random, pathLengths)));
      return having(plan, oids.basicConstraints, value, random.chance(0.8));
    },
  ],
  ["no basic constraints", lacking(oids.basicConstraints)],
  ["no subject key identifier", lacking(oids.subjectKeyIdentifier)],
  ["no authority key identifier", lacking(oids.authorityKeyIdentifier)],
  [
    "another's key identifier",
    (plan, random) => {
      const value = random.chance(0.5) ? hex("300680040a0b0c0d") : hex("3000");
      return having(plan, oids.authorityKeyIdentifier, value);
    },
  ],
  [
    "an unknown extension",
    (plan, random) => having(plan, "1.2.3.4", hex("0500"), random.chance(0.5)),
  ],
  [
    "an extension twice",
    ({ extensions, ...plan }, random) => ({
      ...plan,
      extensions: [...extensions, oneOf(random, extensions)],
    }),
  ],
  [
    "inhibitAnyPolicy",
    (plan, random) => having(plan, oids.inhibitAnyPolicy, hex("020100"), random.chance(0.7)),
  ],
  [
    "Netscape's type",
    (plan, random) =>
      having(plan, oids.netscapeCertType, hex(oneOf(random, ["03020106", "030206c0"]))),
  ],
  [
    "where its issuer is described",
    (plan, random) => {
      const method = hex("06082b06010505073002");
      const value = sequence(sequence(method, text(0x86, "http://ca.test/ca.cer")));
      return having(plan, oids.authorityInfoAccess, value, random.chance(0.2));
    },
  ],
  ["an end in the past", (plan, _, now) => ({ ...plan, notAfter: addSeconds(now, -1) })],
  ["a beginning to come", (plan, _, now) => ({ ...plan, notBefore: addSeconds(now, 3600) })],
  ...Array.from({ length: 4 }, () => ["octets of an extension", brokenExtension] as const),
];

/** Octets that may not parse, in an extension that the certificate has, or in another that it gets. */
function brokenExtension(plan: CaPlan, random: Random, now: Date): CaPlan {
  const richer = random.chance(0.6)
    ? oneOf(random, certificateMutations)[1](plan, random, now)
    : plan;
  const { extensions, ...rest } = richer;
  if (extensions.length === 0) return richer;
  const at = indexBelow(random, extensions.length);
  const changed = extensions.map((extension, i) => {
    if (i !== at) return extension;
    const value = mutateDer(random, Buffer.from(extension.value));
    return new x509.Extension(extension.type, extension.critical, value);
  });
  return { ...rest, extensions: changed };
}
