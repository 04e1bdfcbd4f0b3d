import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import type { Random } from "../../simulation/random.ts";
import { der, hex, type Octets } from "../../testkit/der/mutation.ts";
import { indexBelow, oneOf } from "../mutation/choice.ts";
import { mutateDer } from "../mutation/der.ts";
import type { CaPlan } from "./mutated-bundle.ts";
import { extensionRows, permitted, sequence, text, uri, usages } from "./plain-extensions.ts";

type Mutation = (plan: CaPlan, random: Random, now: Date) => CaPlan;

/** Values beside those of the plain bundles, by the extension that has them: some parse, few are of use. */
const oddValues: Readonly<Record<string, readonly Octets[]>> = {
  "2.5.29.14": [hex("")],
  "2.5.29.15": ["03020780", "030100", "0303010600", "03020107"].map(hex),
  "2.5.29.17": [
    uri("not a URI"),
    uri("spiffe://cluster.lo%zzcal"),
    text(0x82, "-"),
    hex("87047f000001"),
    hex("87037f0000"),
    der(0xa0, hex("06032a0304"), der(0xa0, text(0x0c, "other"))),
  ].map((name) => sequence(name)),
  "2.5.29.19": ["020110", "0201ff", "02020100"].map((length) =>
    sequence(hex("0101ff"), hex(length)),
  ),
  "2.5.29.30": [
    permitted(uri(".cluster.local")),
    permitted(hex("8703010203")),
    permitted(text(0x82, "mesh.test"), uri("cluster.local")),
  ],
  "2.5.29.32": [sequence(), sequence(sequence(hex("0604551d2000")), sequence(hex("06032a0304")))],
  "2.5.29.35": ["", "300680040a0b0c0d", "3000"].map(hex),
  "2.5.29.36": [sequence(), sequence(hex("8001ff")), sequence(hex("800100"), hex("810100"))],
  "2.5.29.37": [usages()],
  "2.16.840.1.113730.1.1": [hex("030206c0")],
};

const extensions: readonly (readonly [name: string, oid: string, value: Octets])[] = [
  ...extensionRows.map(([name, oid, value]) => [name, oid, value] as const),
  ...Object.entries(oddValues).flatMap(([oid, values]) =>
    values.map((value) => [`an odd ${oid}`, oid, value] as const),
  ),
];

const serialNumbers = ["ff", "80", "00", "7f".repeat(20), "7f".repeat(21), "00ff", "01"];

/** An extension in place of another one of its kind. One without a value is left out. */
const others = extensions.map(([name, type, value]): readonly [string, Mutation] => [
  name,
  ({ extensions, ...plan }, random) => ({
    ...plan,
    extensions: [
      ...extensions.filter((each) => each.type !== type),
      ...(value.length > 0 ? [new x509.Extension(type, random.chance(0.5), value)] : []),
    ],
  }),
]);

/** Certificates of CAs as they should not be, and some as they may be. Each is one departure. */
export const certificateMutations: readonly (readonly [name: string, mutate: Mutation])[] = [
  ...others,
  ["a serial number", (plan, random) => ({ ...plan, serialNumber: oneOf(random, serialNumbers) })],
  [
    "an extension twice",
    ({ extensions, ...plan }, random) => ({
      ...plan,
      extensions: [...extensions, oneOf(random, extensions)],
    }),
  ],
  ["an end in the past", (plan, _, now) => ({ ...plan, notAfter: addSeconds(now, -1) })],
  ["a beginning to come", (plan, _, now) => ({ ...plan, notBefore: addSeconds(now, 3600) })],
  ...Array.from({ length: 10 }, () => ["octets of an extension", brokenExtension] as const),
];

/** Octets that may not parse, in an extension that the certificate has, or in another that it gets. */
function brokenExtension(plan: CaPlan, random: Random, now: Date): CaPlan {
  const richer = random.chance(0.6) ? oneOf(random, others)[1](plan, random, now) : plan;
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
