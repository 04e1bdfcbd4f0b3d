import { expect, test } from "vitest";
import { agentFlags, heapFlags, startFlags } from "../../dev/package/node-flags.ts";
import { Runtime } from "../../src/program/runtime.ts";
import { filesAt, read } from "../pages/page-files.ts";

test("both stages of the image have one Node, without a known fault, of the tests' line", () => {
  const images = [...read("deploy/Dockerfile").matchAll(/^FROM (?:--platform=\S+ )?(\S+)/gm)].map(
    ([, image]) => image,
  );
  expect(images).toHaveLength(2);
  expect(images[0]).toBe(images[1]);
  const [, version = ""] =
    /^node:([0-9.]+)-slim(?:@sha256:[0-9a-f]{64})?$/.exec(images[0] ?? "") ?? [];
  expect(version.split(".")[0]).toBe(process.versions.node.split(".")[0]);
  expect(Runtime.faults(undefined, version)).toEqual([]);
});

test("the image is for both processors: what runs in its last stage is done on neither", () => {
  const [, last = ""] = read("deploy/Dockerfile").split(/^FROM --platform=\$BUILDPLATFORM .*\n/m);
  expect(last.split(/^FROM /m).at(-1)).not.toMatch(/^RUN /m);
  const workflow = read(".github/workflows/release.yml");
  expect(workflow).toContain("docker buildx build --platform linux/amd64,linux/arm64 ");
  expect(workflow).toContain("skopeo copy --all ");
});

test("every file that names a version of Rampart names the one of package.json", () => {
  const { version } = JSON.parse(read("package.json"));
  const named = /(?:rampart(?:-import)?:|rampart-ca-rampart-|newTag: |ersion: )(\d+\.\d+\.\d+)/g;
  const texts = filesAt("{deploy,docs}/**/*{.md,.yaml,.yml,.Dockerfile}").map(read);
  const versions = texts.flatMap((text) => [...text.matchAll(named)].map(([, each]) => each));
  expect(versions.length).toBeGreaterThan(15);
  expect(new Set(versions)).toEqual(new Set([version]));
});

/** The bounds of malloc that a file states. */
const mallocIn = (path: string): readonly string[] =>
  [...read(path).matchAll(/MALLOC_\w+=\d+/g)].map(([text]) => text);

test("the image has the small heap, and Node starts in it as in the executable", () => {
  const image = read("deploy/Dockerfile");
  expect(image).toContain(`ENV NODE_OPTIONS="${heapFlags.small.join(" ")}"`);
  const flags = startFlags.map((flag) => `"${flag}", `).join("");
  expect(image).toContain(`ENTRYPOINT ["node", ${flags}"/rampart/dist/rampart.js"]`);
});

test("the example of an agent in a pod, and the page of limits, have the flags of its unit", () => {
  const flags = heapFlags.agent.join(" ");
  const page = read("docs/reference/agent.md");
  expect(page).toContain(`{ name: NODE_OPTIONS, value: "${flags}" }`);
  expect(page).toContain(`exec node ${agentFlags.join(" ")} dist/rampart.js agent run`);
  expect(read("docs/reference/limits.md")).toContain(`\`${flags}\``);
});

test("the units and the chart have the fast heap, the agent's unit the least, and all units the image's bounds of malloc", () => {
  const fast = heapFlags.fast.join(" ");
  expect(read("deploy/helm/rampart/templates/_helpers.tpl")).toContain(`value: "${fast}"`);
  expect(mallocIn("deploy/Dockerfile")).toHaveLength(4);
  for (const [unit, flags] of [
    ["deploy/rampart-serve.service", fast],
    ["deploy/rampart-gateway.service", fast],
    ["deploy/rampart-agent.service", heapFlags.agent.join(" ")],
  ] as const) {
    expect(read(unit)).toContain(`Environment="NODE_OPTIONS=${flags}"`);
    expect(mallocIn(unit)).toEqual(mallocIn("deploy/Dockerfile"));
    expect(read(unit)).toMatch(
      /^ExecStart=\/usr\/local\/bin\/rampart (?:(?:serve|gateway) --config |agent run$)/m,
    );
  }
});

/** What a unit takes from its program, by name. Which addresses it may use is each program's own matter. */
const sandboxOf = (path: string): readonly string[] =>
  read(path)
    .split("\n")
    .filter((line) =>
      /^(?:Private|Protect|Restrict(?!AddressFamilies)|SystemCall(?!ErrorNumber)|Capability|NoNew)/.test(
        line,
      ),
    );

test.each(["gateway", "agent"])(
  "the unit of the %s has the sandbox of that of serve",
  (program) => {
    const sandbox = sandboxOf("deploy/rampart-serve.service");
    expect(sandbox.length).toBeGreaterThan(15);
    expect(sandboxOf(`deploy/rampart-${program}.service`)).toEqual(sandbox);
  },
);
