// One column's results. A partial sum of a further fold over K is added to what stands there: read, add, write in one cycle.
module result_buffer #(
    parameter int ACC_W = 32,
    parameter int DEPTH = 4096,
    parameter int ADDR_W = $clog2(DEPTH)
) (
    input  logic                    clk,
    input  logic                    write,
    input  logic                    add,
    input  logic       [ADDR_W-1:0] addr,
    input  logic signed [ACC_W-1:0] data,
    input  logic       [ADDR_W-1:0] look_addr,
    output logic signed [ACC_W-1:0] look_data
);
    logic signed [ACC_W-1:0] memory[DEPTH];
    always_ff @(posedge clk) if (write) memory[addr] <= (add ? memory[addr] : '0) + data;
    assign look_data = memory[look_addr];
endmodule
