import type { Random } from "../../simulation/random.ts";
import type { Octets } from "../../testkit/der/mutation.ts";
import { indexBelow, oneOf, randomOctets } from "../mutation/choice.ts";
import { mutateJson } from "../mutation/json.ts";
import { mutateOctets } from "../mutation/octets.ts";
import { lengthField, message, mutateMessage, varintField } from "../mutation/protobuf.ts";
import { corpusCsr, corpusToken, judgeCall, type WireCall } from "./service.ts";
import type { Target } from "./target.ts";

/** A message as its binary fields, and as JSON. */
export interface Forms {
  readonly fields: Parameters<typeof message>[0];
  readonly json: Readonly<Record<string, unknown>>;
}

const certificateRequest: Forms = {
  fields: [lengthField(1, Buffer.from(corpusCsr)), varintField(3, 3600n)],
  json: { csr: corpusCsr, validityDuration: "3600", metadata: { CertSigner: "" } },
};

/** A call as text: its method, its headers line by line, an empty line and its body. */
export const wire: Target = {
  generate: (random) => hostileCall(random, certificateRequest),
  judge: async (octets) => {
    const call = parseCall(octets);
    return call ? judgeCall(call) : "not HTTP";
  },
};

/** A call of an RPC in one of its protocols, with changes somewhere in it. */
export function hostileCall(random: Random, forms: Forms): Octets {
  const contentType = oneOf(random, contentTypes);
  const authorization = `Bearer ${corpusToken}`;
  const head = hostileHead(random, { authorization, "content-type": contentType });
  return Buffer.concat([head, bodyOf(random, contentType, forms)]);
}

/** The head of a call with these headers, mostly. */
export function hostileHead(random: Random, headers: Readonly<Record<string, string>>): Octets {
  const lines = mutatedHeaders(random, headers);
  const method = random.chance(0.97) ? "POST" : oneOf(random, methods);
  return Buffer.from([method, ...lines, "", ""].join("\n"));
}

const methods = ["GET", "PUT", "HEAD", "OPTIONS", "post", "M-SEARCH"];
const contentTypes = [
  "application/proto",
  "application/json",
  "application/grpc",
  "application/grpc+proto",
  "application/grpc-web+proto",
  "application/grpc-web",
];
const oddTypes = [
  ...contentTypes,
  "application/json; charset=utf-8",
  "application/grpc-web-text",
  "application/grpc+json",
  "application/connect+proto",
  "APPLICATION/PROTO",
  "text/plain",
  "",
];

/** Headers that decide how a call is read. No timeout is short, so that no outcome depends on the time. */
const oddHeaders: readonly string[] = [
  "connect-protocol-version: 1",
  "connect-protocol-version: 2",
  "connect-timeout-ms: 0",
  "connect-timeout-ms: 60000",
  "connect-timeout-ms: -1",
  "connect-timeout-ms: 99999999999",
  "grpc-timeout: 60S",
  "grpc-timeout: 0n",
  "grpc-timeout: 99999999H",
  "grpc-timeout: x",
  "content-encoding: gzip",
  "content-encoding: identity",
  "grpc-encoding: gzip",
  "grpc-encoding: identity",
  "grpc-encoding: \u00e9",
  "accept-encoding: gzip",
  "grpc-accept-encoding: gzip",
  "x-grpc-web: 1",
  "te: trailers",
  "authorization: Basic eDp5",
  "clusterid: Kubernetes",
  "clusterid: other",
  "x-forwarded-client-cert: By=x",
  "x-bin: AA=",
];

function mutatedHeaders(random: Random, headers: Readonly<Record<string, string>>): string[] {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  switch (indexBelow(random, 8)) {
    case 0:
    case 1:
      return [...lines, oneOf(random, oddHeaders), oneOf(random, oddHeaders)];
    case 2:
      return [lines[0] ?? "", `content-type: ${oneOf(random, oddTypes)}`];
    case 3:
      return lines.map((line) =>
        random.chance(0.5) ? mutateOctets(random, Buffer.from(line)).toString("latin1") : line,
      );
    default:
      return lines;
  }
}

function bodyOf(random: Random, contentType: string, { fields, json }: Forms): Octets {
  if (contentType === "application/json") return jsonBody(random, json);
  const inner = random.chance(0.5) ? message(fields) : mutateMessage(random, fields);
  if (contentType === "application/proto") return inner;
  const frames = random.chance(0.8)
    ? [frame(random, inner)]
    : [frame(random, inner), frame(random, oneOf(random, [inner, randomOctets(random, 9)]))];
  const body = Buffer.concat(frames);
  return random.chance(0.2) ? mutateOctets(random, body) : body;
}

const jsonBody = (random: Random, json: Forms["json"]): Octets => {
  const text = Buffer.from(random.chance(0.2) ? JSON.stringify(json) : mutateJson(random, json));
  return random.chance(0.2) ? mutateOctets(random, text) : text;
};

/** A frame of gRPC, mostly with its right flags and length. */
function frame(random: Random, inner: Uint8Array): Octets {
  const head = Buffer.alloc(5);
  head[0] = random.chance(0.8) ? 0 : oneOf(random, [0x01, 0x02, 0x40, 0x80, 0x81, 0xff]);
  const lengths = [
    0,
    1,
    inner.length - 1,
    inner.length + 1,
    65_536,
    65_537,
    0x7fff_ffff,
    0xffff_ffff,
  ];
  head.writeUInt32BE(random.chance(0.85) ? inner.length : Math.max(0, oneOf(random, lengths)), 1);
  return Buffer.concat([head, inner]);
}

/** A request that fetch or HTTP itself refuses is no call. */
export function parseCall(octets: Octets): WireCall | undefined {
  const end = octets.indexOf("\n\n");
  const [method = "", ...lines] = octets
    .subarray(0, Math.max(end, 0))
    .toString("latin1")
    .split("\n");
  try {
    const headers = new Headers(
      lines.map((line): [string, string] => [
        line.split(":")[0] ?? "",
        line.slice(line.indexOf(":") + 1),
      ]),
    );
    new Request("https://ca.test", { method });
    // HTTP holds a body to its length, whatever the header of a hostile call says here.
    headers.delete("content-length");
    return { method, headers, body: new Uint8Array(octets.subarray(end + 2)) };
  } catch {
    return undefined;
  }
}
