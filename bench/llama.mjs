// Times llama.cpp, as npm's node-llama-cpp ships it, on one thread: node llama.mjs FOLDER-OF-node_modules MODEL.gguf LENGTH PAST REPEAT
// evaluates LENGTH words after PAST others and picks the likeliest next one, REPEAT times from the same cache. A run's time is
// that of llama.cpp's own clock (without node), or processor time where that is less because other programs ran in between.
import path from "node:path";
import {pathToFileURL} from "node:url";

const [folder, modelPath, ...numbers] = process.argv.slice(2);
const [length, past, repeat] = numbers.map(Number);
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(path.join(folder, "node_modules/node-llama-cpp/dist/index.js")).href);
let lines = "";
const logger = (level, text) => { lines += text + "\n"; };
const llama = await getLlama({build: "never", gpu: false, maxThreads: 1, logLevel: LlamaLogLevel.debug, logger});
const model = await llama.loadModel({modelPath, gpuLayers: 0});
const context = await model.createContext({contextSize: 1024, batchSize: 512, threads: 1, flashAttention: true, performanceTracking: true});
const sequence = context.getSequence();
const words = (n) => Array.from({length: n}, (_, i) => 259 + i * 7919 % 10000);
if (past > 0) await sequence.evaluateWithoutGeneratingNewTokens(words(past));

// Milliseconds of llama.cpp since the call before.
async function spent() {
    lines = "";
    await context.printTimings();
    const times = [...lines.matchAll(/eval time = +([\d.]+) ms/g)].map((m) => Number(m[1]));
    if (times.length !== 2) throw new Error(`no timings in: ${lines}`);
    return times[0] + times[1];
}

const runs = [];
for (let i = 0; i <= repeat; ++i) {
    const input = words(length);
    input.push([input.pop(), {generateNext: {token: true, options: {temperature: 0}}}]);
    await spent();
    const start = process.cpuUsage();
    await sequence.controlledEvaluate(input);
    const used = process.cpuUsage(start);
    const own = await spent();
    if (i > 0) runs.push(Math.min(own, (used.user + used.system) / 1e3));
    await sequence.eraseContextTokenRanges([{start: past, end: past + length}]);
    if (sequence.nextTokenIndex !== past) throw new Error(`the cache holds ${sequence.nextTokenIndex} words, not ${past}`);
}
runs.sort((a, b) => a - b);
console.log(`ms of ${runs.length} runs: processor min ${runs[0].toFixed(3)} median ${runs[runs.length >> 1].toFixed(3)}`);
process.exit(0);
