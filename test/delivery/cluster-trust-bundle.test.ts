import { describe, expect, test } from "vitest";
import { createClusterTrustBundle } from "../../src/delivery/cluster-trust-bundle.ts";
import { FetchError } from "../../src/foundation/fetch.ts";
import type { KubernetesRequest, SendRequest } from "../../src/kubernetes/client.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";

const start = new Date("2026-11-21T12:00:00Z");
const bundle = { pem: "the roots", sequence: 7 };
const name = "istio.io:istiod-ca:root-cert";

const asApplied: SendRequest = async ({ body }) => body;

function deliveryTo(answer: SendRequest) {
  const requests: KubernetesRequest[] = [];
  const send: SendRequest = (request) => {
    requests.push(request);
    return answer(request);
  };
  const ending = new AbortController();
  const log = createEventRecorder();
  const client = { send, open: async () => new Response() };
  return {
    ...createClusterTrustBundle(client, "istio.io/istiod-ca", log, ending.signal),
    requests,
    log,
    ending,
  };
}

test("the bundle is applied as Istio's ClusterTrustBundle", async () => {
  const { deliver, stateOf, requests } = deliveryTo(asApplied);
  expect(stateOf(bundle)).toEqual({ delivered: [], pending: [name], hasAll: true });
  await deliver(bundle, start);
  expect(stateOf(bundle)).toEqual({ delivered: [name], pending: [], hasAll: true });
  expect(requests).toMatchObject([
    {
      method: "PATCH",
      path: "/apis/certificates.k8s.io/v1/clustertrustbundles/istio.io%3Aistiod-ca%3Aroot-cert?fieldManager=rampart-distribute&force=true",
      body: {
        apiVersion: "certificates.k8s.io/v1",
        kind: "ClusterTrustBundle",
        metadata: { name },
        spec: { signerName: "istio.io/istiod-ca", trustBundle: "the roots" },
      },
    },
  ]);
});

test("the bundle is applied in the version that the API server serves at that time", async () => {
  let served = "v1beta1";
  const { deliver, stateOf, requests } = deliveryTo(async ({ path, body }) =>
    path.startsWith(`/apis/certificates.k8s.io/${served}/`) ? body : undefined,
  );
  const versions = (): unknown[] => requests.splice(0).map(({ body }) => body);
  await deliver(bundle, start);
  expect(stateOf(bundle).pending).toEqual([]);
  expect(versions()).toMatchObject([
    { apiVersion: "certificates.k8s.io/v1" },
    { apiVersion: "certificates.k8s.io/v1beta1" },
  ]);
  served = "v1";
  await deliver(bundle, addSeconds(start, 300));
  expect(stateOf(bundle).pending).toEqual([]);
  expect(versions()).toMatchObject([{ apiVersion: "certificates.k8s.io/v1" }]);
});

test("the same bundle is applied again every five minutes, and another one at once", async () => {
  const { deliver, stateOf, requests } = deliveryTo(asApplied);
  for (let seconds = 0; seconds <= 900; seconds++)
    await deliver(bundle, addSeconds(start, seconds));
  expect(requests).toHaveLength(4);
  const other = { pem: "other roots", sequence: 8 };
  expect(stateOf(other).pending).toEqual([name]);
  await deliver(other, addSeconds(start, 900));
  expect(stateOf(other).pending).toEqual([]);
  expect(requests).toHaveLength(5);
});

test("the bundle is applied again once the clock was set back", async () => {
  const { deliver, requests } = deliveryTo(asApplied);
  for (const seconds of [0, -60, -3600, -3599]) await deliver(bundle, addSeconds(start, seconds));
  expect(requests).toHaveLength(2);
});

describe("the bundle is pending, and applied again every fifteen seconds, while the API server", () => {
  test.each<[string, SendRequest]>([
    ["is away", () => Promise.reject(new FetchError("did not answer"))],
    ["refuses it", () => Promise.reject(new FetchError("refused", { status: 403 }))],
    ["serves none", async () => undefined],
    ["answers no object", async () => "applied"],
    ["answers an object without a bundle", async () => ({ spec: {} })],
    ["stores something else", async () => ({ spec: { trustBundle: "other roots" } })],
  ])("%s", async (_, answer) => {
    const { deliver, stateOf, requests, log } = deliveryTo(answer);
    for (let seconds = 0; seconds <= 30; seconds++)
      await deliver(bundle, addSeconds(start, seconds));
    expect(stateOf(bundle)).toEqual({ delivered: [], pending: [name], hasAll: true });
    expect(requests.filter(({ path }) => path.includes("/v1/"))).toHaveLength(3);
    expect(log.operations).toHaveLength(3);
    expect(log.operations[0]).toMatchObject({
      event: "root-not-delivered",
      level: "warning",
      detail: expect.stringMatching(/^the API server /),
    });
  });
});

test("the bundle counts as pending once it cannot be applied again", async () => {
  let isAway = false;
  const { deliver, stateOf } = deliveryTo(async ({ body }) => {
    if (isAway) throw new FetchError("did not answer");
    return body;
  });
  await deliver(bundle, start);
  isAway = true;
  await deliver(bundle, addSeconds(start, 300));
  expect(stateOf(bundle).pending).toEqual([name]);
});

test("an attempt that its signal ends is not logged", async () => {
  const { deliver, log, ending } = deliveryTo(() => {
    ending.abort();
    return Promise.reject(new FetchError("did not answer"));
  });
  await deliver(bundle, start);
  expect(log.operations).toEqual([]);
});
