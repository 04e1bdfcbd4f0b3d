import { parse } from "node:querystring";
import { IssuingPath } from "../../../src/transport/http/paths.ts";
import { createJwtSvidService } from "../../../src/transport/rpc/certificate-service.ts";
import { createTokenExchange } from "../../../src/transport/rpc/token-exchange.ts";
import type { Random } from "../../simulation/random.ts";
import { type PublishedKeys, verifiedByNode } from "../../testkit/callers/token-oracle.ts";
import type { Octets } from "../../testkit/der/mutation.ts";
import { account } from "../corpus/tokens.ts";
import { indexBelow, oneOf, several } from "../mutation/choice.ts";
import { mutateOctets } from "../mutation/octets.ts";
import { lengthField, varintField } from "../mutation/protobuf.ts";
import { mutateText } from "../mutation/text.ts";
import { ca, corpusToken, type Door, judgeCall } from "./service.ts";
import { requireThat, type Target, WrongAnswer } from "./target.ts";
import { type Forms, hostileCall, hostileHead, parseCall } from "./wire.ts";

const aws = "sts.test";
const own = `spiffe://cluster.local/ns/${account.namespace}/sa/${account.name}`;

const request: Forms = {
  fields: [lengthField(1, Buffer.from(aws)), varintField(2, 90n), lengthField(3, Buffer.from(own))],
  json: { audiences: [aws, "https://vault.test"], lifetimeSeconds: "90", spiffeId: own },
};

/**
 * A request for a JWT-SVID: a call of the RPC, or, behind one octet, a form at `/token`. A token may be answered for
 * the corpus's own credential alone, to its own subject, and for audiences that were asked for and are allowed.
 */
export const tokenRequest: Target = {
  generate: (random) =>
    random.chance(0.5)
      ? hostileCall(random, request)
      : Buffer.concat([Buffer.from(formMark), hostileForm(random)]),
  judge: async (octets) => {
    const isForm = octets.subarray(0, formMark.length).equals(Buffer.from(formMark));
    const call = parseCall(isForm ? octets.subarray(formMark.length) : octets);
    return call ? judgeCall(call, isForm ? exchange : rpc) : "not HTTP";
  },
};

const formMark = "@";
const formType = "application/x-www-form-urlencoded";
const grantType = "urn:ietf:params:oauth:grant-type:token-exchange";
const jwtType = "urn:ietf:params:oauth:token-type:jwt";

type Field = readonly [name: string, value: string];

const fields: readonly Field[] = [
  ["grant_type", grantType],
  ["subject_token", corpusToken],
  ["subject_token_type", jwtType],
  ["audience", aws],
];

const oddFields: readonly Field[] = [
  ["audience", "https://vault.test"],
  ["audience", "https://other.example"],
  ["audience", ""],
  ["subject_token", corpusToken],
  ["subject_token", "a.b.c"],
  ["grant_type", "authorization_code"],
  ["requested_token_type", jwtType],
  ["requested_token_type", "urn:ietf:params:oauth:token-type:access_token"],
  ["actor_token", corpusToken],
  ["resource", "https://vault.test"],
  ["scope", "all"],
  ["client_id", "x"],
  ["__proto__", "x"],
];

function hostileForm(random: Random): Octets {
  const contentType = random.chance(0.95) ? formType : `${formType}; charset=utf-16`;
  const headers: Record<string, string> = { "content-type": contentType };
  if (random.chance(0.2)) headers["authorization"] = `Bearer ${corpusToken}`;
  const changed = random.chance(0.2)
    ? fields
    : several(random, 4, fields, (some) => other(random, some));
  const text = changed.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  const body = Buffer.from(text);
  return Buffer.concat([
    hostileHead(random, headers),
    random.chance(0.2) ? mutateOctets(random, body) : body,
  ]);
}

function other(random: Random, some: readonly Field[]): readonly Field[] {
  const at = indexBelow(random, some.length);
  const [name = "", value = ""] = some[at] ?? [];
  switch (indexBelow(random, 5)) {
    case 0:
      return some.toSpliced(at, 1);
    case 1:
      return some.toSpliced(at, 0, oneOf(random, oddFields));
    case 2:
      return some.toSpliced(at, 1, [name, mutateText(random, value)]);
    case 3:
      return some.toSpliced(at, 1, [mutateText(random, name), value]);
    default:
      return [
        ...some,
        ...Array.from({ length: indexBelow(random, 40) }, () => [name, value] as const),
      ];
  }
}

const { certificateAuthority } = ca;

const rpc: Door = {
  path: IssuingPath.createJwtSvid,
  services: [createJwtSvidService(certificateAuthority, { hasTrailers: true })],
  isIssued: (octets, call) => {
    // Fetch joins several values by a comma; two bearer tokens are none.
    const values = (call.headers.get("authorization") ?? "").split(/ *, */);
    const tokens = values.flatMap((value) => /^Bearer +(\S+)$/.exec(value)?.[1] ?? []);
    return isRightful(octets, tokens.length === 1 ? tokens[0] : undefined, (audience) =>
      asksFor(Buffer.from(call.body), audience),
    );
  },
};

/** Protobuf has a text as it is, JSON with escapes. */
function asksFor(body: Octets, audience: string): boolean {
  if (body.includes(audience)) return true;
  try {
    return JSON.parse(body.toString()).audiences.includes(audience);
  } catch {
    return false;
  }
}

const exchange: Door = {
  path: IssuingPath.tokenExchange,
  services: [createTokenExchange(certificateAuthority)],
  isIssued: (octets, { body }) => {
    const { subject_token, audience } = parse(Buffer.from(body).toString());
    // RFC 6749 §3.2: a parameter without a value counts as absent.
    const tokens = [subject_token].flat().filter((value) => value !== "");
    const token = tokens.length === 1 ? tokens[0] : undefined;
    return isRightful(octets, token, (each) => [audience].flat().includes(each));
  },
};

const published = await ca.app.fetch(new Request("https://ca.test/.well-known/jwks.json"));
const keys = (await published.json()) as PublishedKeys;

const allowed = /^(?:sts\.test|https:\/\/.*\.test)$/;

/** @throws WrongAnswer for a token that answers another credential than the corpus's, or says more than it may. */
async function isRightful(
  octets: Uint8Array,
  credential: unknown,
  isAskedFor: (audience: string) => boolean,
): Promise<boolean> {
  const text = Buffer.from(octets).toString("latin1");
  const [token] = /eyJ[\w-]+\.[\w-]+\.[\w-]+/.exec(text) ?? [];
  if (token === undefined) return false;
  requireThat(credential === corpusToken, "answered a token to another credential");
  const { claims } = verifiedByNode(token, keys) ?? {};
  if (!claims) throw new WrongAnswer("answered a token that node:crypto refuses");
  const { iss, sub, aud } = claims;
  const [exp, iat] = [Number(claims["exp"]), Number(claims["iat"])];
  requireThat(iss === "https://ca.test" && sub === own, `answered a token of ${sub} by ${iss}`);
  requireThat(exp > ca.now().getTime() / 1000, "answered a token that has ended");
  const audiences = [aud ?? []].flat().map(String);
  requireThat(
    audiences.length > 0 && audiences.length <= 8 && new Set(audiences).size === audiences.length,
    `answered a token for ${audiences.length} audiences`,
  );
  for (const audience of audiences) {
    requireThat(allowed.test(audience) && isAskedFor(audience), `answered a token for ${audience}`);
  }
  requireThat(exp > iat && exp - iat <= 3600, `answered a life of ${exp - iat} s`);
  return true;
}
