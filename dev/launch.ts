#!/usr/bin/env node
/** The start of the installed `rampart-dev`. */
import { isNodeNewEnough } from "../src/cli/versions.ts";

if (isNodeNewEnough("rampart-dev")) void import("./start.ts");
