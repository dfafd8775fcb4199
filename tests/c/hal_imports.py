"""Functions of IREE's HAL module that programs written by hand import, with their conventions."""

from tests.c.bytecode import Import

ALLOCATE = Import(name="hal.allocator.allocate", convention="0rIiiI_r")
ALLOCATOR = Import(name="hal.device.allocator", convention="0r_r")
AWAIT = Import(name="hal.fence.await", convention="0iICrD_i")
COPY = Import(name="hal.device.queue.copy", convention="0rIrrrIrIII_v")
CREATE = Import(name="hal.executable.create", convention="0rIrrr_r")
DEVICE = Import(name="hal.devices.get", convention="0i_r")
DISPATCH = Import(name="hal.command_buffer.dispatch", convention="0rrIiiiICiDCiirIID_v")
EXECUTE = Import(name="hal.device.queue.execute", convention="0rIrrrI_v")
FENCE = Import(name="hal.fence.create", convention="0rI_r")
FILL = Import(name="hal.device.queue.fill", convention="0rIrrrIIIiI_v")
FINISH = Import(name="hal.command_buffer.finalize", convention="0r_v")
JOIN = Import(name="hal.fence.join", convention="0ICrD_r")
LOAD = Import(name="hal.buffer.load", convention="0rIi_i")
RECORD = Import(name="hal.command_buffer.create", convention="0riiIi_r")
SIGNAL = Import(name="hal.fence.signal", convention="0r_v")
STORE = Import(name="hal.buffer.store", convention="0irIi_v")
UPDATE = Import(name="hal.device.queue.update", convention="0rIrrrIrIII_v")
