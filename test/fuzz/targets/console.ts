import { Console } from "../../../src/console/console.ts";
import { OperatorGuard } from "../../../src/console/operator-guard.ts";
import type { Random } from "../../simulation/random.ts";
import { sampleEntries, sampleNow, sampleStatus } from "../../testkit/console/sample-status.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { indexBelow, oneOf } from "../mutation/choice.ts";
import { mutateOctets } from "../mutation/octets.ts";
import { requireThat, type Target } from "./target.ts";

const token = "operators-token-0123456789-abcdefgh";
const basic = Buffer.from(`operator:${token}`).toString("base64");
let reads = 0;

const { answer } = Console.create({
  status: {
    at: async () => {
      reads++;
      return sampleStatus;
    },
    searchLog: async () => sampleEntries,
  },
  guard: OperatorGuard.create({ tokens: [{ token }], access: undefined }, undefined),
  clock: () => sampleNow,
  log: { ...createEventRecorder(), operation: () => {} },
  hasTrailers: false,
});

/** Marks the words of a caller, which the page may show as text alone. */
const mark = "zqzq";
const queries = [
  mark,
  `<${mark}>`,
  `"${mark}="`,
  `'><img ${mark}>`,
  `&${mark};`,
  `</style><${mark}>`,
];
const paths = ["/", "/console/", "/console/icon.svg", "//", "/console/../", "/readyz", "/console"];
const credentials = [`Bearer ${token}`, `Basic ${basic}`, `bearer  ${token}`, "Bearer ", token];
const oddHeaders = [
  "sec-fetch-site: cross-site",
  "sec-fetch-mode: navigate",
  "cf-access-jwt-assertion: a.b.c",
  "host: rebinding.test",
  `authorization: Bearer ${token}`,
  "x-http-method-override: POST",
];

/** A request for the page of operators as text: method and target, then a header on each line. */
export const consoleRequest: Target = {
  generate: (random) => {
    const method = random.chance(0.8) ? "GET" : oneOf(random, ["HEAD", "POST", "DELETE", "get"]);
    const query = random.chance(0.7) ? `?q=${encodeURIComponent(oneOf(random, queries))}` : "";
    const lines = [
      `${method} ${oneOf(random, paths)}${query}`,
      `authorization: ${changed(random, oneOf(random, credentials))}`,
      ...Array.from({ length: indexBelow(random, 3) }, () => oneOf(random, oddHeaders)),
    ];
    return Buffer.from(lines.join("\n"));
  },
  judge: async (octets) => {
    const request = requestOf(octets.toString("latin1"));
    if (!request) return "not HTTP";
    const before = reads;
    const response = await answer(request);
    if (!response) return "another path";
    const { status, headers } = response;
    const isOperator = showsToken(request.headers.get("authorization") ?? "");
    requireThat(isOperator || (status !== 200 && reads === before), "shows itself to a stranger");
    requireThat(/^(?:GET|HEAD)$/.test(request.method) || status !== 200, "takes a change");
    requireThat(status !== 500, "fails");
    const text = await response.text();
    const isText = !new RegExp(`<[^<>]*${mark}`).test(text.replace(/"[^"<>]*"/g, '""'));
    requireThat(isText, "lets a caller write into the page");
    const policy = headers.get("content-security-policy") ?? "";
    const isPage = headers.get("content-type")?.startsWith("text/html");
    requireThat(!isPage || policy.startsWith("default-src 'none'"), "has a page without a policy");
    return `status ${status}`;
  },
};

function changed(random: Random, text: string): string {
  if (random.chance(0.5)) return text;
  return mutateOctets(random, Buffer.from(text)).toString("latin1");
}

/** Whether a header has the token, by a reader of its own. */
function showsToken(header: string): boolean {
  const [scheme = "", shown = "", ...more] = header.trim().split(/ +/);
  if (more.length > 0) return false;
  if (scheme.toLowerCase() === "bearer") return shown === token;
  const decoded = Buffer.from(shown, "base64").toString();
  return scheme.toLowerCase() === "basic" && decoded.slice(decoded.indexOf(":") + 1) === token;
}

function requestOf(text: string): Request | undefined {
  const [first = "", ...lines] = text.split("\n");
  const [method = "", target = ""] = first.split(" ");
  try {
    const headers = new Headers();
    for (const line of lines) {
      const colon = line.indexOf(":");
      headers.append(line.slice(0, Math.max(colon, 0)), line.slice(colon + 1));
    }
    return new Request(`https://ca.test${target}`, { method, headers });
  } catch {
    return undefined;
  }
}
