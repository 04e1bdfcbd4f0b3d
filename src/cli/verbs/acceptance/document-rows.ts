import { randomUUID } from "node:crypto";
import { rootCertificates } from "node:tls";
import { Code, ConnectError } from "@connectrpc/connect";
import { IssuerKeys } from "../../../authn/issuer-keys.ts";
import { createClient } from "../../../client/client.ts";
import { messageOf } from "../../../foundation/errors.ts";
import { DocumentFetch, FetchError, type Fetching } from "../../../foundation/fetch.ts";
import { JsonWebSignature } from "../../../pki/jose/json-web-signature.ts";
import { JwtSvid } from "../../../pki/jose/jwt-svid.ts";
import { KeySet } from "../../../pki/jose/key-set.ts";
import { parseCrls } from "../../../program/bundle/crl-document.ts";
import { isIssuedBy } from "../../../program/bundle/mesh-roots.ts";
import { parseSpiffeBundle, type SpiffeBundle } from "../../../program/bundle/spiffe-bundle.ts";
import { parseCertificates } from "../../../program/files/pem-file.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import type { Answer, Deployed } from "./deployed.ts";
import { attention, broken, good, type Measurement, type Row, skipped } from "./row.ts";

/** The settings of {@link documentRows}. */
export interface DocumentOptions {
  /** Another address of the same CA. */
  readonly elsewhere: string | undefined;
  readonly audience: string;
  readonly waitSeconds: number;
}

/** Makes the rows about the trust bundle, the CRLs and the documents of JWT-SVIDs. */
export const documentRows = ({
  elsewhere,
  audience,
  waitSeconds,
}: DocumentOptions): readonly Row[] => [
  {
    name: "bundle",
    expect: "Both forms of the bundle have the same roots, those of the certificates among them",
    why: "A peer that lacks the root refuses this workload.",
    page: "rampart docs wire",
    measure: measureBundle,
  },
  {
    name: "bundle-freshness",
    expect: "The bundle of a cache, and every other look at it, is the newest one",
    why: "Workloads that trust an older bundle refuse the leaves of the next authority.",
    page: "rampart docs platform",
    measure: (deployed) => measureFreshness(deployed, elsewhere),
  },
  {
    name: "bundle-caching",
    expect: "An ETag that revalidates with 304, and a max-age of 60 s at most",
    why: "A longer age keeps a withdrawn root; without 304, every look costs the whole bundle.",
    page: "rampart docs endpoints",
    measure: ({ ask }) => measureCaching(ask),
  },
  {
    name: "long-poll",
    expect: `The CA holds an answer for ${waitSeconds} s, and nothing on the way cuts it`,
    why: "By it a new root arrives within seconds. Without it, agents ask every five minutes.",
    page: "rampart docs endpoints",
    measure: (deployed) => measureLongPoll(deployed, waitSeconds),
  },
  {
    name: "crl",
    expect: "Each CRL is valid, for at least half of its time",
    why: "A proxy with a CRL that has ended refuses every certificate under it.",
    page: "rampart docs revocation",
    measure: measureCrls,
  },
  {
    name: "jwt-svid",
    expect: "A key of the bundle verifies a token, and so do discovery and key set at its issuer",
    why: "Relying parties find the keys there, follow no redirect, and compare the issuer octet by octet.",
    page: "rampart docs relying-parties",
    measure: (deployed) => measureToken(deployed, audience),
  },
];

/** Fetches the bundle past caches, by a URL of its own and `no-cache`. */
const lookPastCaches = async ({ ask }: Deployed, at = ""): Promise<SpiffeBundle> =>
  bundleIn(await ask(`${at}/bundle.json?look=${randomUUID()}`, { "cache-control": "no-cache" }));

function bundleIn(answer: Answer): SpiffeBundle {
  requireDocument(answer);
  return parseSpiffeBundle(answer.octets);
}

function requireDocument({ status }: Answer): void {
  if (status !== 200) throw new FetchError(`answered with status ${status}`);
}

async function measureBundle({ ask, issued, clock }: Deployed): Promise<Measurement> {
  const [json, pem] = [await ask("/bundle.json"), await ask("/bundle.pem")];
  const { roots, sequence } = bundleIn(json);
  requireDocument(pem);
  const fingerprints = (of: typeof roots) =>
    of
      .map((root) => root.fingerprint256)
      .toSorted()
      .join();
  if (fingerprints(roots) !== fingerprints(parseCertificates(pem.text)))
    return broken("/bundle.json and /bundle.pem have different roots");
  const isTrusted = issued.every((chain) => isIssuedBy(chain, roots, clock()));
  const said = `roots: ${roots.length}, sequence: ${sequence}`;
  return isTrusted ? good(said) : broken(`${said}: no root of a certificate that was issued now`);
}

/** How often the bundle is fetched, because replicas of a store may differ. */
const looks = 8;

async function measureFreshness(
  deployed: Deployed,
  elsewhere: string | undefined,
): Promise<Measurement> {
  const cached = await deployed.ask("/bundle.json");
  const seen = [bundleIn(cached).sequence];
  for (let i = 0; i < looks; i++) seen.push((await lookPastCaches(deployed)).sequence);
  if (elsewhere !== undefined) seen.push((await lookPastCaches(deployed, elsewhere)).sequence);
  const newest = Math.max(...seen);
  const behind = seen.filter((sequence) => sequence < newest).length;
  const age = Number(cached.headers.get("age") ?? 0);
  if (behind === 0) return good(`${seen.length} looks agree on ${newest}, at an age of ${age} s`);
  // The sequence is the instant of the last change, in milliseconds since 1970.
  const seconds = Math.round((deployed.clock().getTime() - newest) / 1000);
  const whose = seen[0] === newest ? "past caches" : "at a cache that keeps it too long";
  return (seconds < propagationSeconds ? attention : broken)(
    `${behind} of ${seen.length} looks were behind, ${whose}: they lack the change of ${seconds} s ago`,
  );
}

/** KV may take 60 seconds, and a cache in front of it as long. */
const propagationSeconds = 120;

const longestAgeSeconds = 60;

async function measureCaching(ask: Deployed["ask"]): Promise<Measurement> {
  const { headers } = await ask("/bundle.json");
  const etag = headers.get("etag");
  const control = headers.get("cache-control") ?? "none";
  const [, age = "none"] = /max-age=(\d+)/.exec(control) ?? [];
  if (etag === null) return attention("the answer has no ETag");
  const { status } = await ask("/bundle.json", { "if-none-match": etag });
  const said = `max-age ${age}, revalidated with ${status}`;
  return (status === 304 && Number(age) <= longestAgeSeconds ? good : attention)(said);
}

async function measureLongPoll(
  { ask, clock, parts: { platform } }: Deployed,
  seconds: number,
): Promise<Measurement> {
  const { headers } = await ask("/bundle.json");
  const waiting = { "if-none-match": headers.get("etag") ?? "", prefer: `wait=${seconds}` };
  const begun = clock().getTime();
  const lasted = (): string => `after ${Math.round((clock().getTime() - begun) / 1000)} s`;
  try {
    const answer = await ask("/bundle.json", waiting, 1000 * seconds + 10_000);
    const applied = answer.headers.get("preference-applied");
    if (applied !== null && answer.status < 400) return good(`${answer.status} ${lasted()}`);
    const said = `status ${answer.status} ${lasted()}: the wait is off, or lost on the way`;
    if (answer.status >= 500) return broken(said);
    return platform === "lambda" ? skipped(said) : attention(said);
  } catch (error) {
    if (error instanceof FetchError) return broken(`it ${error.message} ${lasted()}`);
    throw error;
  }
}

async function measureCrls({ ask, clock }: Deployed): Promise<Measurement> {
  const answer = await ask("/crl.pem");
  if (answer.status === 404) return skipped("CRL is off");
  requireDocument(answer);
  const crls = parseCrls(answer.text);
  const now = clock().getTime();
  const shares = crls.map(({ thisUpdate, nextUpdate = new Date(0) }) => {
    const [begin, end] = [thisUpdate.getTime(), nextUpdate.getTime()];
    return now < begin ? 0 : (end - now) / (end - begin);
  });
  const least = Math.round(100 * Math.min(...shares));
  const said = `CRLs: ${crls.length}, of which the oldest has ${least} % of its time left`;
  if (least <= 0) return broken(said);
  return (least < 50 ? attention : good)(said);
}

/** Gets a JWT-SVID, and verifies it by the bundle, then like a relying party that knows only the URL of the issuer. */
async function measureToken({ parts, ask, clock }: Deployed, audience: string) {
  const client = createClient({ ...parts, token: () => parts.token });
  const answer = await client.fetchJwtSvid([audience]).catch((error: unknown) => {
    const { code } = ConnectError.from((error as Error).cause);
    if (code === Code.Unimplemented) return skipped("JWT_ISSUER is not set");
    if (code === Code.PermissionDenied) return skipped(`name an --audience: ${messageOf(error)}`);
    throw error;
  });
  if ("verdict" in answer) return answer;
  const { jwtKeys } = bundleIn(await ask("/bundle.json"));
  const { claims } = await JwtSvid.validate(answer.token, audience, () => jwtKeys, clock());
  const issuer = String(claims["iss"]);
  // The issuer may be a public site beside a CA whose own certificate has other roots.
  const roots = parts.roots && [parts.roots, ...rootCertificates].join("\n");
  const fetchTrusting: Fetching["fetchTrusting"] = (_, reach) => NodeFetch.trusting(roots, reach);
  const fetchJson = DocumentFetch.create({ fetchTrusting });
  const { url, reach } = await IssuerKeys.discover(issuer, fetchJson);
  const keys = KeySet.parse(await fetchJson[reach](url)) ?? [];
  const source: IssuerKeys = ({ algorithm, keyId }) => KeySet.candidates(keys, algorithm, keyId);
  await JsonWebSignature.requireSignature(JsonWebSignature.parse(answer.token), source, clock());
  return good(`verified by the bundle and by what ${issuer} publishes, keys: ${keys.length}`);
}
