import { describe, expect, test } from "vitest";
import { UpstreamError } from "../../src/ca/upstream-authority.ts";
import { upstreamOf } from "../../src/config/internal/upstream.ts";
import type { Fetching } from "../../src/foundation/fetch.ts";
import { Base64 } from "../../src/pki/encoding/base64.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { configurationOf } from "../testkit/configuration.ts";
import { createCa } from "../testkit/pki/plugged-in.ts";

const credential = "hvs.secret-of-the-upstream";
const root = await createCa("O=company,CN=root");
const other = await createCa("O=company,CN=other");
const { csrPem } = await createWorkload();
const csr = Base64.parse(csrPem.replace(/-----[^\n]*\n|\s/g, ""));
if (!csr) throw new Error("no CSR");
const request = { csr, lifetimeSeconds: 86_400.7 };

const derOf = (pem: string) => Pem.certificates(pem)[0];
const base64Of = (certificates: readonly Uint8Array[]) =>
  certificates.map((der) => Base64.format(new Uint8Array(der)));

type Kind = "vault" | "rampart";

/** The CA upstream of a configuration, which answers like this, and what was sent to it. */
function upstreamThat(kind: Kind, answer: () => Response | Promise<Response>) {
  const sent: { url: string; init: RequestInit; roots: string | undefined }[] = [];
  const fetchTrusting: Fetching["fetchTrusting"] = (roots) => async (url, init) => {
    sent.push({ url, init, roots });
    return answer();
  };
  const configuration = configurationOf({
    AUTHORITY_ROOT: "upstream",
    UPSTREAM_AUTHORITY: { kind, url: "https://ca.test", ca: root.pem },
  });
  let reads = 0;
  const read = () => (reads++ === 0 ? credential : "renewed");
  const ask = upstreamOf(
    { ...configuration, clusterCredentials: new Map([["UPSTREAM_CREDENTIAL", read]]) },
    { fetching: { fetchTrusting }, clock: () => new Date() },
  );
  if (!ask) throw new Error("no upstream");
  return { ask, sent };
}

const answers = {
  vault: { data: { certificate: other.pem, ca_chain: [root.pem], issuing_ca: root.pem } },
  rampart: { certChain: [other.pem, root.pem] },
} as const;

describe.each(["vault", "rampart"] as const)("a CA upstream of the kind %s", (kind) => {
  test("certifies a request, and the roots of its answer are apart from the chain", async () => {
    const { ask, sent } = upstreamThat(kind, () => Response.json(answers[kind]));
    const { chain, roots } = await ask(request);
    expect(base64Of(chain)[0]).toBe(derOf(other.pem));
    expect(base64Of(roots)).toContain(derOf(root.pem));
    const init = { method: "POST", redirect: "manual", signal: expect.any(AbortSignal) };
    expect(sent).toMatchObject([{ roots: root.pem, init }]);
    expect(JSON.stringify(sent[0]?.init.body)).toContain("86400");
    expect(JSON.stringify(sent[0]?.init.headers)).toContain(credential);
    await ask(request);
    expect(JSON.stringify(sent[1]?.init.headers)).toContain("renewed");
  });

  test.each([201, 302, 403, 503])("gives nothing by status %i", async (status) => {
    const { ask } = upstreamThat(kind, () => new Response(null, { status }));
    await expect(ask(request)).rejects.toThrow(`answered with status ${status}`);
  });

  test.each<[string, unknown]>([
    ["an empty object", {}],
    ["nothing", null],
    ["certificates in another place", { certificates: [other.pem] }],
    ["data of another form", { data: "x", certChain: "x" }],
    ["a chain of numbers", { data: { certificate: 1 }, certChain: [1, 2] }],
    ["a certificate without its root", { certChain: [other.pem], data: { ca_chain: [root.pem] } }],
    [
      "far too many",
      {
        certChain: Array(17).fill(root.pem),
        data: { certificate: root.pem, ca_chain: Array(17).fill(root.pem) },
      },
    ],
    [
      "an endless certificate",
      { certChain: ["x".repeat(65_537), "x"], data: { certificate: "x".repeat(65_537) } },
    ],
  ])("gives nothing by %s", async (_, json) => {
    const { ask } = upstreamThat(kind, () => Response.json(json));
    await expect(ask(request)).rejects.toThrow("the CA upstream answered no certificate");
  });

  test.each<[string, () => Response | Promise<Response>]>([
    ["answers no JSON", () => new Response("<html>")],
    ["does not answer", () => Promise.reject(new TypeError("fetch failed"))],
    ["quotes what it got", () => new Response(`${credential} ${csrPem}`, { status: 403 })],
  ])("that %s fails, and the error holds neither the credential nor the CSR", async (_, answer) => {
    const error: unknown = await upstreamThat(kind, answer)
      .ask(request)
      .catch((fault) => fault);
    expect(error).toBeInstanceOf(UpstreamError);
    expect(String(error)).not.toContain(credential);
    expect(String(error)).not.toContain("CERTIFICATE");
  });
});

test("an answer of Vault may name its issuer alone, and each certificate counts once", async () => {
  const { ca_chain: _, ...data } = answers.vault.data;
  const { ask } = upstreamThat("vault", () => Response.json({ data: { ...data, ca_chain: null } }));
  const { chain, roots } = await ask(request);
  expect([base64Of(chain), base64Of(roots)]).toEqual([[derOf(other.pem)], [derOf(root.pem)]]);
});

const url = "https://v.test";
const asked = (table: object) => ({
  AUTHORITY_ROOT: "upstream",
  UPSTREAM_AUTHORITY: { kind: "vault", url, ...table },
});

test.each<[string, object, string]>([
  ["without the CA upstream", { AUTHORITY_ROOT: "upstream" }, "UPSTREAM_AUTHORITY: is required"],
  [
    "with one that is not asked",
    { UPSTREAM_AUTHORITY: { kind: "vault", url } },
    'UPSTREAM_AUTHORITY: has no effect unless AUTHORITY_ROOT is "upstream"',
  ],
  [
    "with plain HTTP to another machine",
    asked({ url: "http://v.test" }),
    "UPSTREAM_AUTHORITY.url: must be an https URL",
  ],
  [
    "with a mount that climbs",
    asked({ mount: "../sys" }),
    "UPSTREAM_AUTHORITY.mount: must be a path without dots",
  ],
  [
    "with the key of a root and the address of a CA, but no root",
    asked({ kind: "key-service", keys: ["awskms:///x"] }),
    "UPSTREAM_AUTHORITY.url: is not for the kind key-service\nUPSTREAM_AUTHORITY.root: is required",
  ],
])("a configuration %s is refused", (_, values, sentence) => {
  expect(() => configurationOf({ ...values })).toThrow(sentence);
});
