import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { createEdgeWorker } from "../testkit/programs/edge-worker.ts";
import { startControlledCas } from "./controlled-ca.ts";
import { playScene, scenes } from "./scenes.ts";

const { origin, close } = await startControlledCas();
afterAll(close);

const names = Object.keys(scenes);

describe("in Node", () => {
  test.each(names)("%s", (name) => playScene(name, { createClient, origin }));
});

describe("in workerd", () => {
  let worker: Awaited<ReturnType<typeof createEdgeWorker>>;

  beforeAll(async () => {
    worker = await createEdgeWorker({ main: "test/client/scenes-worker.ts" });
    await worker.listen();
  });
  afterAll(() => worker.close());

  test.each(names)("%s", async (scene) => {
    const response = await worker.fetch(`/?${new URLSearchParams({ scene, origin })}`);
    expect(await response.text()).toBe("played");
  });
});
