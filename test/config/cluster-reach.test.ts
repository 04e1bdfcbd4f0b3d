import { expect, test } from "vitest";
import { apiOpener, type ClusterAccess, clientOf, noApi } from "../../src/config/cluster-reach.ts";
import { ConfigurationError } from "../../src/foundation/configuration-error.ts";
import type { Fetch } from "../../src/foundation/http/json-fetch.ts";
import { refusalOf } from "../testkit/refusal.ts";

const server = "https://10.0.0.1:6443";
const credential = "CLUSTER_CREDENTIAL_A";
const table = { server, credential, review: "after-keys", deliver_roots: false } as const;

/** Access to clusters, and every request that it has sent. */
function accessWith(changes: Partial<ClusterAccess> = {}) {
  const sent: { url: string; authorization: string | null; roots: string | undefined }[] = [];
  const fetching =
    (roots: string | undefined): Fetch =>
    async (url, { headers }) => {
      sent.push({ url, authorization: new Headers(headers).get("authorization"), roots });
      return Response.json({});
    };
  const access: ClusterAccess = {
    fetchTrusting: fetching,
    credentials: new Map([[credential, () => "secret"]]),
    failed: () => {},
    ...changes,
  };
  return { access, sent };
}

test("a client asks the server of its table with the credential of that name, and trusts its CA alone", async () => {
  const { access, sent } = accessWith();
  await clientOf({ ...table, ca: "the CA" }, access).send({ path: "/api" });
  expect(sent).toEqual([{ url: `${server}/api`, authorization: "Bearer secret", roots: "the CA" }]);
});

test("a credential is read for each request, because it may change", async () => {
  let credentials = 0;
  const { access, sent } = accessWith({
    credentials: new Map([[credential, () => `secret-${++credentials}`]]),
  });
  const client = clientOf(table, access);
  expect(credentials).toBe(0);
  await client.send({ path: "/a" });
  await client.send({ path: "/b" });
  expect(sent.map(({ authorization }) => authorization)).toEqual([
    "Bearer secret-1",
    "Bearer secret-2",
  ]);
});

test.each([
  ["without any credential", new Map()],
  ["with the credential of another cluster", new Map([["CLUSTER_CREDENTIAL_B", () => "x"]])],
])("no client is made %s, and no request is sent", (_, credentials) => {
  const { access, sent } = accessWith({ credentials });
  for (const open of [() => clientOf(table, access), () => apiOpener("a", table, access)]) {
    expect(open).toThrow(new ConfigurationError([`${credential}: is required`]));
  }
  expect(sent).toEqual([]);
});

test("no client is made where the platform cannot trust the CA", () => {
  const { access } = accessWith({
    fetchTrusting: () => {
      throw new ConfigurationError(["ISSUERS: not here"]);
    },
  });
  expect(() => clientOf(table, access)).toThrow("ISSUERS: not here");
});

test("a program without access to clusters reaches none, and says which", async () => {
  const api = noApi("west");
  expect(api.cluster).toBe("west");
  expect(await refusalOf(() => api.send({ path: "/api" }, new Date()))).toEqual({
    reason: "cluster-unreachable",
    cluster: "west",
  });
});
