// Evaluations of a plan: buffers, pipelines, and dispatches of parts of the blocks that last a quarter of a second.
//
// As gravbench.toolkits.dispatching. Every set of bodies has input buffers of its own; what kernels write is shared, so
// a launch on one set overwrites what one on another left. The first number that a kernel of a rung gets is that of its
// first block, so that its blocks can be divided; a dispatch that `isWhole` has no such number.

const LONGEST = 0.25; // seconds of a dispatch, about: browsers end those that take seconds
const FIRST_PART = 64;
const MOST_BLOCKS = 65535;
const STORED = () => GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC;

class Evaluation {
  constructor(gpu, plan, sets) {
    Object.assign(this, { gpu, plan, sets, stages: [], estimates: new Map(), parts: new Map(), stopped: null });
  }

  // Compile the expanded texts and make the buffers. `sets` are the bodies, each by rows x, y, z, mass. With a `limit`
  // the kernels are guarded. `compiled` keeps the pipelines of these texts by their limits.
  static async made(gpu, plan, texts, sets, limit = null, compiled = new Map()) {
    const evaluation = new Evaluation(gpu, plan, sets);
    if (!compiled.has(limit)) compiled.set(limit, await evaluation.compile(texts, limit));
    const pipelines = compiled.get(limit);
    await gpu.tried("its buffers cannot be made", () => evaluation.allocate(limit !== null));
    evaluation.stages = plan.dispatches.flatMap((dispatch) =>
      pipelines[dispatch.kernel].map((pipeline) => ({ pipeline, dispatch })),
    );
    return evaluation;
  }

  // Return the pipelines of each kernel, one for each of its entry points.
  async compile(texts, limit) {
    const made = [];
    for (const { text, entries } of this.plan.kernels) {
      const code = texts[text].map((line) => line.text).join("\n");
      const module = await this.module(limit === null ? code : guarded(code, entries, limit), texts[text]);
      const pipelines = [];
      for (const entryPoint of entries) {
        const described = { layout: "auto", compute: { module, entryPoint } };
        const compiling = () => this.gpu.device.createComputePipelineAsync(described);
        pipelines.push(await this.gpu.tried(`the kernel ${entryPoint} cannot be made`, compiling));
      }
      made.push(pipelines);
    }
    return made;
  }

  // Compile a text.
  //
  // Throws a Refusal that names the lines of the written text, as the person sees it.
  async module(code, lines) {
    const { device } = this.gpu;
    if (/^enable subgroups;/m.test(code) && !this.gpu.has("subgroups")) {
      throw new Refusal(WITHOUT.subgroups, { status: "skipped" });
    }
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ code });
    const info = await this.gpu.within(module.getCompilationInfo(), "compiling");
    const refused = await this.gpu.unlessLost(device.popErrorScope(), "compiling");
    const errors = info.messages.filter((message) => message.type === "error");
    if (errors.length) {
      const places = errors.map((message) => (lines[message.lineNum - 1] || lines[lines.length - 1]).origin);
      const sentence = `line ${places[0] + 1}: ${firstLine(errors[0].message)}`;
      throw new Refusal(sentence, { lines: [...new Set(places)] });
    }
    if (refused) throw new Refusal(`it does not compile: ${sentenceOf(refused)}`);
    return module;
  }

  allocate(isGuarded) {
    this.shared = this.plan.buffers.map((buffer) =>
      ["nothing", "zeros"].includes(buffer.holds) ? this.gpu.buffer(4 * buffer.length, STORED()) : null,
    );
    this.ofSets = this.sets.map((set) =>
      this.plan.buffers.map((buffer, place) => this.shared[place] || this.gpu.buffer(held(buffer, set), STORED())),
    );
    this.stopped = isGuarded ? this.gpu.buffer(4, STORED()) : null;
  }

  // Fill all that a launch has to write with NaN, so that nothing of an earlier one is left: the result with one that
  // no arithmetic makes.
  spoil() {
    this.plan.buffers.forEach((buffer, place) => {
      if (buffer.holds !== "nothing") return;
      const filled = new Float32Array(buffer.length).fill(NaN);
      if (this.plan.result.buffers.includes(place)) new Uint32Array(filled.buffer).fill(CONTENT.judging.unwritten);
      this.gpu.device.queue.writeBuffer(this.shared[place], 0, filled);
    });
  }

  // Return a dispatch of some blocks of a stage, bound to the buffers of a set.
  part(stage, set, first, blocks, seconds = LONGEST) {
    const { pipeline, dispatch } = stage;
    const { device } = this.gpu;
    const bound = dispatch.buffers.map((place) => this.ofSets[set][place]);
    const { eps2 } = this.sets[set];
    const numbers = dispatch.numbers.map(([type, value]) => [type, value === "eps2" ? eps2 : value]);
    if (!dispatch.isWhole) numbers.unshift(["i32", first]);
    bound.push(this.gpu.buffer(uniformOf(numbers), GPUBufferUsage.UNIFORM));
    const layout = pipeline.getBindGroupLayout(0);
    const entries = bound.map((buffer, binding) => ({ binding, resource: { buffer } }));
    const groups = [device.createBindGroup({ layout, entries })];
    if (this.stopped) {
      const flag = [{ binding: 0, resource: { buffer: this.stopped } }];
      groups.push(device.createBindGroup({ layout: pipeline.getBindGroupLayout(1), entries: flag }));
    }
    return { pipeline, groups, blocks, seconds };
  }

  // Launch on a set for the first time: in parts that grow, each waited for, to find out how long a block takes.
  async launchFirst(set) {
    for (const stage of this.stages) {
      const { grid, isWhole } = stage.dispatch;
      let [first, blocks, each] = [0, isWhole ? grid : Math.max(1, Math.floor(grid / FIRST_PART)), 0];
      while (first < grid) {
        blocks = Math.min(blocks, MOST_BLOCKS, grid - first);
        each = (await this.secondsOf(stage, set, first, blocks)) / blocks;
        first += blocks;
        blocks = grid * each <= LONGEST ? grid - first : 2 * blocks * each > LONGEST ? blocks : 2 * blocks;
      }
      this.estimates.set(stage, each);
    }
  }

  async secondsOf(stage, set, first, blocks) {
    const bound = "it does not use the arrays and numbers that it is given";
    const part = await this.gpu.tried(bound, () => this.part(stage, set, first, blocks));
    const began = performance.now();
    await this.gpu.tried("it cannot be launched", () => submitted(this.gpu, [part]));
    await this.gpu.finished("its first launch", LONGEST);
    return (performance.now() - began) / 1000;
  }

  // Return the dispatches of a whole evaluation on a set; needs launchFirst.
  dispatchesOn(set) {
    if (!this.parts.has(set)) {
      this.parts.set(set, this.stages.flatMap((stage) => this.partsOf(stage, set)));
    }
    return this.parts.get(set);
  }

  partsOf(stage, set) {
    const { grid, isWhole } = stage.dispatch;
    const each = this.estimates.get(stage);
    const atOnce = isWhole ? grid : Math.min(Math.max(1, Math.floor(LONGEST / each)), MOST_BLOCKS);
    const parts = [];
    for (let first = 0; first < grid; first += atOnce) {
      const blocks = Math.min(atOnce, grid - first);
      parts.push(this.part(stage, set, first, blocks, blocks * each));
    }
    return parts;
  }

  // Tell whether the bodies of all sets are as they were given to the kernels.
  async keptBodies() {
    const places = this.plan.buffers.map((_, place) => place).filter((place) => !this.shared[place]);
    for (const [number, set] of this.sets.entries()) {
      const read = await this.gpu.read(places.map((place) => this.ofSets[number][place]), "reading the bodies back");
      for (const [index, place] of places.entries()) {
        const given = held(this.plan.buffers[place], set);
        const now = new Float32Array(read[index]);
        if (!given.every((value, at) => Object.is(value, now[at]))) return false;
      }
    }
    return true;
  }

  // Return the accelerations that the last launch left: three numbers for each of n bodies.
  async result() {
    const { buffers, width } = this.plan.result;
    const read = await this.gpu.read(buffers.map((place) => this.shared[place]), "reading its result");
    // As bits, because a NaN that is copied as a number may become another one.
    const columns = read.map((content) => new Uint32Array(content));
    const n = columns[0].length / width;
    const sums = new Uint32Array(3 * n);
    for (let axis = 0; axis < 3; axis += 1) {
      const [column, lane] = width === 1 ? [columns[axis], 0] : [columns[0], axis];
      for (let body = 0; body < n; body += 1) sums[3 * body + axis] = column[width * body + lane];
    }
    return new Float32Array(sums.buffer);
  }
}

// Return the numbers that a buffer holds first of a set of bodies.
function held(buffer, set) {
  const rows = set.rows;
  if (buffer.holds === "rows") return rows;
  const lane = ["x", "y", "z", "mass"].indexOf(buffer.holds);
  return Float32Array.from({ length: buffer.length }, (_, body) => rows[4 * body + lane]);
}

// Return the bytes of a uniform.
function uniformOf(numbers) {
  const view = new DataView(new ArrayBuffer(16 * Math.ceil(numbers.length / 4)));
  numbers.forEach(([type, value], place) => {
    if (type === "i32") view.setInt32(4 * place, value, true);
    else view.setFloat32(4 * place, value, true);
  });
  return view.buffer;
}

// Submit dispatches in command buffers of about LONGEST at most; `marks` are the timestamps of the first and the last.
function submitted(gpu, dispatches, marks = null) {
  const groups = grouped(dispatches);
  groups.forEach((group, place) => {
    const encoder = gpu.device.createCommandEncoder();
    const writes = marks && { querySet: marks };
    if (writes && place === 0) writes.beginningOfPassWriteIndex = 0;
    if (writes && place === groups.length - 1) writes.endOfPassWriteIndex = 1;
    const pass = encoder.beginComputePass(writes && Object.keys(writes).length > 1 ? { timestampWrites: writes } : {});
    for (const { pipeline, groups: bound, blocks } of group) {
      pass.setPipeline(pipeline);
      bound.forEach((values, index) => pass.setBindGroup(index, values));
      pass.dispatchWorkgroups(blocks);
    }
    pass.end();
    gpu.device.queue.submit([encoder.finish()]);
  });
}

// Return how long dispatches take, about, in seconds.
function expectedSeconds(dispatches) {
  return dispatches.reduce((sum, { seconds }) => sum + seconds, 0);
}

function grouped(dispatches) {
  const groups = [[]];
  let seconds = 0;
  for (const dispatch of dispatches) {
    if (groups[groups.length - 1].length && seconds + dispatch.seconds > LONGEST) {
      groups.push([]);
      seconds = 0;
    }
    groups[groups.length - 1].push(dispatch);
    seconds += dispatch.seconds;
  }
  return groups;
}
