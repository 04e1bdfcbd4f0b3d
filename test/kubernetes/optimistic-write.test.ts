import { expect, test } from "vitest";
import { FetchError } from "../../src/foundation/fetch.ts";
import {
  type ObjectWrite,
  type SendRequest,
  sendUnlessConflict,
} from "../../src/kubernetes/client.ts";

const creation: ObjectWrite = { method: "POST", path: "/things", body: { kind: "Thing" } };
const replacement: ObjectWrite = { ...creation, method: "PUT", path: "/things/one" };

const failing =
  (status: number): SendRequest =>
  () =>
    Promise.reject(new FetchError(`answered with status ${status}`, { status }));

const answering =
  (answer: unknown): SendRequest =>
  async () =>
    answer;

test.each([
  ["makes an object", creation, answering({}), true],
  ["replaces a version", replacement, answering({}), true],
  ["makes no object whose name is taken", creation, failing(409), false],
  ["replaces no version but the one that it names", replacement, failing(409), false],
  ["replaces no object that is gone", replacement, answering(undefined), false],
] as const)("%s", async (_, write, send, came) => {
  expect(await sendUnlessConflict(send, "istio-system", write)).toBe(came);
});

test("names the namespace that does not exist", async () => {
  const writing = sendUnlessConflict(answering(undefined), "istio-system", creation);
  await expect(writing).rejects.toThrow(/no namespace istio-system/);
});

test.each([401, 403, 422, 500])("throws what another status says: %i", async (status) => {
  const writing = sendUnlessConflict(failing(status), "istio-system", replacement);
  await expect(writing).rejects.toMatchObject({ status });
});
