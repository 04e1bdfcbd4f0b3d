import * as z from "zod/mini";
import { type HeldKeks, Kek, type KekRing } from "../custody/kek.ts";
import type { ConfiguredKek, LeaseParts, WrappedKek } from "../custody/key-service/kek-lease.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import { Duration, parsedText } from "../foundation/text.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import type { PlatformKeys } from "./platform-keys.ts";

interface KekConfiguration {
  readonly keks: readonly ConfiguredKek[];
  readonly kekLeaseSeconds: number;
  readonly trustDomain: TrustDomain;
  readonly signers: readonly { readonly name: string }[];
}

interface KekMeans extends Pick<LeaseParts, "clock" | "log" | "shareWork" | "inBackground"> {
  /** The key services. Absent in a main module that is built without them, to be smaller. */
  readonly keyCustody?: PlatformKeys | undefined;
}

/** Imports KEKs whose octets are in the configuration. They are held until the process ends. */
async function importKeks(
  keks: readonly ConfiguredKek[],
  signers: readonly string[],
): Promise<HeldKeks> {
  const ringOf = async (signer?: string): Promise<KekRing> => {
    const imported = keks.flatMap((kek) =>
      "octets" in kek ? [Kek.import(kek.id, kek.octets, signer)] : [],
    );
    const [newest, ...older] = await Promise.all(imported);
    if (!newest) throw new Error("a configuration without a KEK");
    return [newest, ...older];
  };
  const rings = new Map<string | undefined, KekRing>();
  for (const signer of [undefined, ...signers]) rings.set(signer, await ringOf(signer));
  return {
    ring: (signer) => {
      const ring = rings.get(signer);
      if (!ring) throw new Error(`no KEK was derived for the signer ${signer}`);
      return ring;
    },
    hold: () => undefined,
    fault: () => undefined,
    until: () => undefined,
  };
}

const plainPattern = /^([A-Za-z0-9._-]{1,64}):([A-Za-z0-9+/_-]+={0,2})$/;
const wrappedPattern =
  /^([A-Za-z0-9._-]{1,64}):([a-z]{1,16}:\/\/[^\s,#]{1,512})#([A-Za-z0-9_-]{1,4096})\.([A-Za-z0-9_-]{43})$/;

const sentence = `must be <id>:<base64 of ${Kek.octets} random bytes>, or what \`rampart kek wrap\` prints, several by commas`;

/** Parses, imports and serializes the KEKs of a configuration. */
export const ConfiguredKeks = {
  /**
   * Imports the KEKs of a configuration, and derives those of its named signers. If any is wrapped, a lease for all is
   * returned, which asks the key services only when `hold` is called.
   *
   * @throws ConfigurationError for a KEK in a key service, on a platform that reaches none, and for a URI of no key.
   */
  async hold(
    { keks, kekLeaseSeconds, trustDomain, signers }: KekConfiguration,
    { keyCustody, ...means }: KekMeans,
  ): Promise<HeldKeks> {
    const names = signers.map(({ name }) => name);
    const wrapped = keks.filter((kek) => "wrappings" in kek);
    if (wrapped.length === 0) return importKeks(keks, names);
    if (!keyCustody)
      throw new ConfigurationError([
        `KEK: ${wrapped[0]?.id} rests in a key service, which needs main = src/worker/main-with-keys.ts`,
      ]);
    const { keyServices, lease } = keyCustody;
    for (const { wrappings } of wrapped) for (const { uri } of wrappings) keyServices(uri);
    return lease({
      keks,
      signers: names,
      trustDomain,
      leaseSeconds: kekLeaseSeconds,
      keyServices,
      ...means,
    });
  },

  /** KEKs, newest first, separated by commas. Faults never quote the value. */
  schema: parsedText(parseRing, sentence).check(
    z.refine(
      (keks) => new Set(keks.map(({ id }) => id)).size === keks.length,
      "must not use an id twice, but for one KEK in several key services",
    ),
  ),

  /** Serializes a wrapped KEK as `KEK` takes it, with an entry for each service that wrapped it. */
  format: ({ id, wrappings, mark }: WrappedKek): string =>
    wrappings
      .map(
        ({ uri, ciphertext }) =>
          `${id}:${uri}#${Base64.formatUrl(ciphertext)}.${Base64.formatUrl(mark)}`,
      )
      .join(","),
};

const lease = Duration.seconds.check(
  z.refine((seconds) => seconds >= 60 && seconds <= 86_400, "must lie between 1m and 24h"),
);

/** The configuration keys for KEKs. */
export const kekKeys = { KEK_LEASE: z.prefault(lease, "1h"), KEK: ConfiguredKeks.schema };

/** A token, a pair of keys or JSON, as the tools of each service write it. Faults never quote it. */
export const keyServiceCredentialText = z.string().check(z.minLength(1), z.maxLength(32_768));

function parseRing(text: string): ConfiguredKek[] | undefined {
  const keks = text.split(",").map((entry) => parseEntry(entry.trim()));
  const complete = keks.filter((kek) => kek !== undefined);
  return complete.length < keks.length ? undefined : complete.reduce(joined, []);
}

/** Joins the entries of one KEK that several key services have wrapped. The first service that unwraps it is used. */
function joined(keks: ConfiguredKek[], next: ConfiguredKek): ConfiguredKek[] {
  const same = keks.find(({ id }) => id === next.id);
  if (!same || !("mark" in same) || !("mark" in next)) return [...keks, next];
  if (Base64.format(same.mark) !== Base64.format(next.mark)) return [...keks, next];
  const both = { ...same, wrappings: [...same.wrappings, ...next.wrappings] };
  return keks.map((kek) => (kek === same ? both : kek));
}

function parseEntry(entry: string): ConfiguredKek | undefined {
  const [, id, base64] = plainPattern.exec(entry) ?? [];
  if (id === undefined || base64 === undefined) return parseWrapped(entry);
  const unpadded = base64.replace(/-/g, "+").replace(/_/g, "/").replace(/=+$/, "");
  const octets = Base64.parse(unpadded.padEnd(Math.ceil(unpadded.length / 4) * 4, "="));
  return octets?.length === Kek.octets ? { id, octets } : undefined;
}

function parseWrapped(entry: string): WrappedKek | undefined {
  const [, id = "", uri = "", ...texts] = wrappedPattern.exec(entry) ?? [];
  const [ciphertext, mark] = texts.map((text) => Base64.parseUrl(text));
  return ciphertext && mark ? { id, wrappings: [{ uri, ciphertext }], mark } : undefined;
}
