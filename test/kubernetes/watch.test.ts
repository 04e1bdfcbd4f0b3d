import { expect, test } from "vitest";
import type { KubernetesClient } from "../../src/kubernetes/kubernetes-client.ts";
import { watchCollection } from "../../src/kubernetes/watch.ts";

/** Lists pages without objects, each of which promises another, and says how often it was asked. */
function endless(): KubernetesClient & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    read: async (path) => {
      asked.push(path);
      return { metadata: { resourceVersion: "1", continue: `${asked.length}` }, items: [] };
    },
    watch: async function* () {},
    apply: async () => undefined,
  };
}

test("a list that has no end is left, and said to have none", async () => {
  const client = endless();
  const ending = new AbortController();
  const failure = await new Promise((failed) => {
    watchCollection({
      client,
      path: "/api/v1/pods",
      keep: () => undefined,
      failed,
      signal: ending.signal,
    });
  });
  ending.abort();
  expect(failure).toMatchObject({ message: "has no end of what it lists" });
  expect(client.asked.length).toBeLessThanOrEqual(5000);
});

test("what a server calls its version stays a value in the next request", async () => {
  const paths: string[] = [];
  const ending = new AbortController();
  const client: KubernetesClient = {
    read: async () => ({ metadata: { resourceVersion: "1&watch=0#" }, items: [] }),
    watch: async function* (path) {
      ending.abort();
      yield paths.push(path);
    },
    apply: async () => undefined,
  };
  const { signal } = ending;
  watchCollection({
    client,
    path: "/api/v1/pods",
    keep: () => undefined,
    failed: () => {},
    signal,
  });
  await expect
    .poll(() => paths)
    .toEqual([expect.stringMatching(/resourceVersion=1%26watch%3D0%23$/)]);
});
