// Output-stationary processing element: multiplies what passes, keeps the sum, and hands the finished sum to a drain
// register, so that the next fold's products can enter while the column of drain registers shifts down.
module pe_os #(
    parameter int A_W = 8,
    parameter int B_W = 8,
    parameter int ACC_W = 32
) (
    input  logic                    clk,
    input  logic                    rst,
    input  logic                    valid_i,
    input  logic                    first_i,
    input  logic                    last_i,
    input  logic signed [  A_W-1:0] a_i,
    input  logic signed [  B_W-1:0] b_i,
    output logic                    valid_o,
    output logic                    first_o,
    output logic                    last_o,
    output logic signed [  A_W-1:0] a_o,
    output logic signed [  B_W-1:0] b_o,
    input  logic                    shift_i,
    input  logic signed [ACC_W-1:0] drain_i,
    output logic signed [ACC_W-1:0] drain_o
);
    logic signed [ACC_W-1:0] acc, sum;
    assign sum = (first_i ? '0 : acc) + ACC_W'(a_i) * ACC_W'(b_i);

    always_ff @(posedge clk) begin
        {valid_o, first_o, last_o} <= rst ? '0 : {valid_i, first_i, last_i};
        a_o <= a_i;
        b_o <= b_i;
        if (valid_i) acc <= sum;
        if (valid_i && last_i) drain_o <= sum;
        else if (shift_i) drain_o <= drain_i;
    end
endmodule
