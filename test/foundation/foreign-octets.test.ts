import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../../src");

const sources = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
  .map(({ parentPath, name }) => join(parentPath, name))
  .map((path) => ({ path: relative(root, path), code: codeOf(readFileSync(path, "utf8")) }))
  .filter(({ path }) => !path.startsWith("gen/") && !path.includes(".tsc"));

/** A source without comments and imports, which only name what it calls. */
function codeOf(source: string): string {
  return source
    .replaceAll(/\/\*.*?\*\//gs, "")
    .replaceAll(/^\s*\/\/.*$/gm, "")
    .replaceAll(/^(?:import|export) (?:type )?\{[^}]*\} from .*$/gm, "");
}

/**
 * What decodes octets into objects, and where it may stand: in one of the two readers, or behind it, or where nothing
 * foreign is decoded.
 */
const decoders: readonly (readonly [string, RegExp, Readonly<Record<string, string>>])[] = [
  [
    "JSON",
    /\bJSON\.parse\(|\.json\(\)|\bfromJson(?:String)?\(/,
    {
      "foundation/json.ts": "the reader",
      "cli/verbs/issuer/recipes.ts": "its own table",
      "node/http/routes.ts": "its own answer",
    },
  ],
  [
    "a form",
    /\.formData\(\)|new URLSearchParams\(new TextDecoder/,
    { "transport/rpc/token-exchange.ts": "counts its fields before" },
  ],
  [
    "a message",
    /\bfromBinary\(|createConnectRouter\(|\bcreate(?:Grpc|GrpcWeb|Connect)Transport\(|new BinaryReader\(/,
    {
      "transport/rpc/internal/message.ts": "the count; counts fields before",
      "transport/rpc/fallback.ts": "counts values or fields before",
      "node/http/auxiliary-rpcs.ts": "counts values before; a stream's message has 16 KiB",
      "console/status-service.ts": "an operator's 4 KiB",
      "agent/sockets/unix-socket.ts": "the agent's own pod",
      "node/gateway/forwarding.ts": "an answer of the gateway's own CA",
      "node/gateway/certificate-source.ts": "an answer of the gateway's own CA",
      "agent/identity/ca-channel.ts": "an answer of the agent's own CA, bounded",
      "client/internal/ca-calls.ts": "an answer of the client's own CA, bounded",
      "cli/verbs/acceptance/deployed.ts": "an answer of the operator's own CA, bounded",
      "agent/xds/workload-health.ts": "the agent's own pod",
      "agent/xds/discovery-protocol.ts":
        "keeps a few fields; a message of Envoy or istiod is bounded before",
    },
  ],
  [
    "a token",
    /\b(?:compactVerify|flattenedVerify|generalVerify|jwtVerify|decodeJwt|decodeProtectedHeader)\(/,
    { "pki/jose/json-web-signature.ts": "header and claims come from the reader before" },
  ],
  [
    "a whole body, without a bound of its own,",
    /\b(?:request|response|answer|object|body|c\.req)\.(?:text|arrayBuffer|bytes|blob)\(\)/,
    {
      "transport/rpc/request-body.ts": "looks at content-length before",
      "node/lambda/events.ts": "its own answer",
      "worker/log/log-storage.ts": "an object of its own log",
      "console/browser/main.ts": "a browser, of its own CA",
    },
  ],
  [
    "PEM",
    /-----BEGIN (?!AGE)|PemConverter/,
    {
      "pki/encoding/pem.ts": "the reader",
      "cli/verbs/import/ca-entries.ts": "looks whether a text is PEM",
    },
  ],
];

describe.each(decoders)("%s", (_, decodes, places) => {
  test("is decoded in a known place alone", () => {
    const found = sources.filter(({ code }) => decodes.test(code)).map(({ path }) => path);
    expect(found.toSorted()).toEqual(Object.keys(places).toSorted());
  });
});

test.each([
  ["transport/rpc/internal/message.ts", /requireFewValues\(.*fromBinary\(/s],
  ["transport/rpc/fallback.ts", /requireFewValues\(.*yield octets/s],
  ["transport/rpc/token-exchange.ts", /=== ampersand\).*new URLSearchParams\(new TextDecoder/s],
])("%s counts before it decodes", (path, order) => {
  expect(sources.find((each) => each.path === path)?.code).toMatch(order);
});
