import assert from "node:assert/strict";
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";
import type { Row } from "../outcome-table.ts";
import { buildImage, type Image } from "./image.ts";
import { serveAndIssue } from "./issuance.ts";

/** What an engine does with the Dockerfile. Only root can become the image's user. */
export function imageRows(folder: string): readonly Row[] {
  let image: Image | undefined;
  const built = async (): Promise<Image> => (image ??= await buildImage(join(folder, "image")));
  return [
    [
      "the stages run one after the other in empty folders",
      async () => {
        const { usual, command } = await built();
        assert.deepEqual(usual, ["serve", "--config", "/etc/rampart/rampart.toml"]);
        const [node, ...words] = command;
        assert.match(await runWell(node, [...words, "--version"]), /^\d+\.\d+\.\d+ \(unknown\)\n$/);
      },
    ],
    [
      "the image holds no source, no test and no tool",
      async () => {
        const { command } = await built();
        const home = join(command.at(-1) ?? "", "../..");
        for (const path of ["src", "dev", "node_modules/typescript", "node_modules/workerd"]) {
          await assert.rejects(access(join(home, path), constants.F_OK), path);
        }
      },
    ],
    [
      "its user, who owns nothing of the image, serves and issues a certificate",
      async () => {
        const { command, environment, user } = await built();
        const id = process.getuid?.() === 0 ? user : undefined;
        await serveAndIssue(join(folder, "served"), { command, environment, user: id });
      },
    ],
  ];
}
