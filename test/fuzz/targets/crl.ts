import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { Crl } from "../../../src/pki/x509/crl/crl.ts";
import { CrlEntries } from "../../../src/pki/x509/crl/crl-entries.ts";
import type { Random } from "../../simulation/random.ts";
import {
  childrenOf,
  contentOf,
  der,
  derInteger,
  elementAt,
  extension,
  hex,
  inHex,
  type Octets,
} from "../../testkit/der/mutation.ts";
import { authorityKey, rootCertificates } from "../corpus/certificates.ts";
import { identifierOf, signForX509 } from "../corpus/fixed-signature.ts";
import { oneOf } from "../mutation/choice.ts";
import { mutateDer } from "../mutation/der.ts";
import { requireThat, type Target, unlessRefused } from "./target.ts";

const key = authorityKey("P-256");
/** The issuer of a root, which is its subject. */
const issuer = elementAt(rootCertificates[0] ?? hex(""), [0, 3]);

const entry = (serialNumber: bigint, ...more: readonly Octets[]): Octets =>
  der(0x30, derInteger(serialNumber), der(0x17, Buffer.from("260301000000Z")), ...more);

const reason = der(0x30, extension("551d15", false, hex("0a0101")));

const toBeSigned = (...entries: readonly Octets[]): Octets =>
  der(
    0x30,
    hex("020101"),
    identifierOf(key),
    issuer,
    der(0x17, Buffer.from("260301000000Z")),
    der(0x18, Buffer.from("20560301000000Z")),
    ...(entries.length > 0 ? [der(0x30, ...entries)] : []),
    der(
      0xa0,
      der(
        0x30,
        extension("551d23", false, der(0x30, der(0x80, Buffer.alloc(20, 0x5a)))),
        extension("551d14", false, hex("02021000")),
      ),
    ),
  );

const signed = (bytes: Octets): Octets =>
  der(0x30, bytes, identifierOf(key), der(0x03, hex("00"), signForX509(key, bytes)));

const contents = [
  toBeSigned(),
  toBeSigned(entry(0x5a5an), entry(1n << 150n, reason)),
  toBeSigned(...Array.from({ length: 40 }, (_, i) => entry(BigInt(i) << 60n))),
];

/** The DER of a CRL, changed by its publisher or by its signer. A second reader goes by the elements alone. */
export const crl: Target = {
  generate: (random: Random) => {
    const content = oneOf(random, contents);
    return random.chance(0.5)
      ? mutateDer(random, signed(content))
      : signed(mutateDer(random, content));
  },
  judge: async (input) => {
    const octets = new Uint8Array(input);
    const read = await unlessRefused(
      () => ({ list: Crl.parse(octets), ...CrlEntries.parse(octets) }),
      DerError,
    );
    if (!read) return "refused";
    const { list, serialNumbers } = read;
    await requireOwnNames(list, serialNumbers);
    const other = readElements(input);
    requireThat(textOf(list.thisUpdate) === other.thisUpdate, "reads another thisUpdate");
    requireThat(textOf(list.nextUpdate) === other.nextUpdate, "reads another nextUpdate");
    requireThat(inHex(list.issuer) === inHex(other.issuer), "reads another issuer");
    const isSame = [...serialNumbers].join() === [...new Set(other.serialNumbers)].join();
    requireThat(isSame, "reads other serial numbers");
    return `${serialNumbers.size > 0 ? "entries" : "no entry"} read`;
  },
};

/** An instant as its digits in a certificate, with the century. */
const textOf = (instant: Date | undefined): string | undefined =>
  instant?.toISOString().replace(/[-:T]|\.000/g, "");

function readElements(octets: Octets) {
  const [list = octets] = childrenOf(octets);
  const fields = childrenOf(list);
  const [, issuer = list, ...rest] = fields[0]?.[0] === 0x02 ? fields.slice(1) : fields;
  const isTime = (element: Octets): boolean => element[0] === 0x17 || element[0] === 0x18;
  const [thisUpdate, nextUpdate] = rest.filter(isTime).map(digitsIn);
  const entries = rest.find((element) => element[0] === 0x30);
  const serialNumbers = entries
    ? childrenOf(entries).map((each) => inHex(contentOf(childrenOf(each)[0] ?? each)))
    : [];
  return { issuer, thisUpdate, nextUpdate, serialNumbers };
}

function digitsIn(time: Octets): string {
  const digits = contentOf(time).toString("latin1");
  if (time[0] === 0x18) return digits;
  return `${Number(digits.slice(0, 2)) < 50 ? "20" : "19"}${digits}`;
}

/** The two readers of entries agree. Serial numbers with a sign count as none. */
async function requireOwnNames(list: Crl, serialNumbers: ReadonlySet<string>): Promise<void> {
  const wanted = new Set([...serialNumbers].map((number) => number.replace(/^(?:00)+(?=..)/, "")));
  const named = await unlessRefused(() => Crl.named(list, wanted), DerError);
  requireThat(!named || named.every((each) => wanted.has(each)), "names what no entry has");
  requireThat(!named || new Set(named).size === wanted.size, "overlooks an entry");
}
